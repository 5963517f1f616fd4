#!/usr/bin/env bash
# Campaigns one after another on each GPU of a machine, stopped by the clock and kept so that they can go on elsewhere:
#
#   lanes.sh LIGER OUT SECONDS "jsd:470:4" "group_norm:290:5 tvd:180"
#
# LIGER is a checkout of the stock tree, made by the same commit wherever a campaign is to go on. One argument a GPU: of
# each kernel the seconds that it may take, how many variants (8 if nothing is said), and after how many minutes it
# begins no more of them, so that the tests of the best still fit (`jsd:570:6:6`). A journal that lies in
# OUT/<kernel> goes on, one without the library's texts too, such as those beside this file; of one that lies there as
# try.jsonl, of a GPU of another kind say, the winner is tried first, and so is a kernel's file that lies there as
# try.py, or a folder `try` of several by their paths. `kernelwright` and the target's Python are those on the PATH; KERNELWRIGHT="python docs/results/h200/rounds/stages.py" leaves a stages.csv beside each journal.
# OPTIONS="--no-script" is given to each campaign as well. UNTIL="running tests" stops a campaign as if by the clock at the first line of its log that has these words.
set -u

stock=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
ends=$(($(date +%s) + $3))
shift 3
read -ra command <<<"${KERNELWRIGHT:-kernelwright}"
read -ra options <<<"${OPTIONS:-}"

ended_by() { # a campaign, once its log has such a line
  while kill -0 "$1" 2>/dev/null; do
    if grep -q "$UNTIL" "$2"; then
      kill -INT "$1"
      return
    fi
    sleep 0.5
  done
}

lane() {
  local gpu=$1 kernel seconds variants minutes left tree begun late campaign version
  shift
  tree=$(mktemp -d)/liger
  git clone -q "$stock" "$tree"
  for item in "$@"; do
    IFS=: read -r kernel seconds variants minutes <<<"$item"
    left=$((ends - $(date +%s)))
    [ "$left" -gt 30 ] || break
    [ "$seconds" -lt "$left" ] || seconds=$left
    mkdir -p "$out/$kernel"
    begun=() late=() first=()
    [ -z "$minutes" ] || late=(--minutes "$minutes")
    [ ! -f "$out/$kernel/journal.jsonl" ] || begun=(--resume "$out/$kernel/journal.jsonl")
    for version in "$out/$kernel/try.jsonl" "$out/$kernel/try.py" "$out/$kernel/try"; do
      [ ! -e "$version" ] || first+=(--try "$version")
    done
    (
      cd "$tree" || exit
      export STAGES="$out/$kernel/stages.csv" CUDA_VISIBLE_DEVICES=$gpu
      exec timeout -s INT -k 20 "$seconds" \
        "${command[@]}" optimize "$kernel" --repo . --mode autonomous --evidence measured --yes \
        "${options[@]}" --max-variants "${variants:-8}" "${late[@]}" "${begun[@]}" "${first[@]}" </dev/null
    ) >"$out/$kernel/log.txt" 2>&1 &
    campaign=$!
    [ -z "${UNTIL:-}" ] || ended_by "$campaign" "$out/$kernel/log.txt" &
    wait "$campaign"
    echo "$kernel on GPU $gpu: exit $?"
    for file in journal.jsonl report.md; do
      [ ! -f "$tree/optimization/$kernel/$file" ] || cp "$tree/optimization/$kernel/$file" "$out/$kernel/"
    done
  done
}

gpu=0
for items in "$@"; do
  # shellcheck disable=SC2086  # words of one argument are the kernels of one GPU
  lane "$gpu" $items &
  gpu=$((gpu + 1))
done
wait
