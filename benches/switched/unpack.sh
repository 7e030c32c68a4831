# For `run` and `load`: a public package as Cargo unpacks it, and the switch of its timers.
switched=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# The folder of a package: NAME VERSION WORK. A scratch package in WORK depends on it.
unpacked() {
    local scratch=$3/scratch
    mkdir -p "$scratch/src"
    : >"$scratch/src/lib.rs"
    printf '[package]\nname = "scratch"\nedition = "2021"\n[dependencies]\n"%s" = "=%s"\n[workspace]\n' "$1" "$2" >"$scratch/Cargo.toml"
    rm -f "$scratch/Cargo.lock"
    (cd "$scratch" && cargo metadata --quiet --format-version 1) |
        grep -o "\"manifest_path\":\"[^\"]*/$1-$2/Cargo.toml\"" | head -1 | cut -d'"' -f4 | xargs dirname
}

# Switches the timers of the package in a folder, as the page on switching says.
switch() {
    chmod -R u+w "$1"
    find "$1" -name '*.rs' -print0 | xargs -0 perl -0pi "$switched/switch.pl"
    printf '\n[dependencies.timingwheel]\npath = "%s"\nfeatures = ["%s"]\n' "$switched/../.." "${2:-timerfd}" >>"$1/Cargo.toml"
}
