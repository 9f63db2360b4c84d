#compdef %(prog_name)s

%(complete_func)s() {
    local kind value help
    local -a response plain described names
    (( ! $+commands[%(prog_name)s] )) && return 1
    response=("${(@f)$(COMP_WORDS="${(j: :)words[1,CURRENT-1]} $QIPREFIX$IPREFIX$PREFIX" %(complete_var)s=zsh_complete %(prog_name)s)}")
    for kind value help in "${(@)response}"; do
        case $kind in
            plain) if [[ $help == _ ]]; then plain+=("$value"); else described+=("$value:$help"); fi ;;
            name) names+=("$value") ;;
            file) _path_files -f ;;
        esac
    done
    (( $#described )) && _describe -V unsorted described -U
    (( $#plain )) && compadd -U -V unsorted -a plain
    (( $#names )) && compset -P '*::' && compadd -V unsorted -a names
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }
    compdef %(complete_func)s %(prog_name)s
fi
