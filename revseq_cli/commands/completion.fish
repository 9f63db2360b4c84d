function %(complete_func)s
    set -lx COMP_WORDS (commandline -cp | string collect)
    set -lx %(complete_var)s fish_complete
    for completion in (%(prog_name)s)
        set -l parts (string split -m 1 , -- $completion)
        if test $parts[1] = file
            __fish_complete_path (commandline -ct)
        else
            printf '%%s\n' $parts[2]
        end
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
