%(complete_func)s() {
    local completion
    COMPREPLY=()
    while IFS= read -r completion; do
        case $completion in
            file,*) compopt -o default ;;
            plain,*) COMPREPLY+=("${completion#plain,}") ;;
        esac
    done < <(COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORD="$2" %(complete_var)s=bash_complete "$1")
}
complete -o nosort -F %(complete_func)s %(prog_name)s
