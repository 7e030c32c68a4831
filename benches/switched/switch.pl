# Names tokio's time by ours in one file, as the page on switching says.
s/\btokio::time\b/timingwheel::time/g;
# `use tokio::{net, time::{sleep, Duration}};` becomes two imports.
s{^([ \t]*(?:pub(?:\([^)]*\))?[ ])?use[ ])(?:::)?tokio::(\{(?:[^{}]++|(?2))*\});}{
    my ($all, $use, $list) = ($&, $1, substr($2, 1, -1));
    my (@other, @time);
    while ($list =~ /\s*((?:[^{},]++|(\{(?:[^{}]++|(?2))*\}))+)\s*,?/g) {
        my $item = $1 =~ s/\s+$//r;
        next if $item eq '';
        if ($item =~ /^time\b/) { push @time, $item } else { push @other, $item }
    }
    my $rest = @other ? "${use}tokio::{" . join(', ', @other) . "};" : '';
    @time ? join("\n", ($rest || ()), map { "${use}timingwheel::$_;" } @time) : $all;
}gmex;
