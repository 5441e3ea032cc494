# Sourced: whether something is as new as the sources that it is made of.

# is_as_new STAMP ROOT: no file of the checkout that gets into packages or images is newer.
is_as_new() {
    [ -e "$1" ] && [ -z "$(find "$2" -mindepth 1 \
        \( -name '.*' -o -path "$2/build" -o -path "$2/dist" -o -path "$2/tests" \) -prune -o \
        -type f ! -name '*.py[co]' -newer "$1" -print -quit)" ]
}
