#!/usr/bin/env bash
# Runs configs/slurm/ under a real Slurm: starts a cluster of one machine (this one) in a folder of its own,
# submits the job array and the srun job on copies of the example pairs, with and without a lost process, and
# compares the maps, byte for byte, with those of a run without Slurm.
#
#   sudo scripts/check_slurm.sh             packages: slurm-wlm munge
#
# HDFNET_INFER=FILE  the program (default: build/bin/hdfnet-infer)
#
# Not among the tests of scripts/test.sh: it starts three daemons as root, on ports of the machine.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

PROGRAM="$(realpath "${HDFNET_INFER:-$ROOT/build/bin/hdfnet-infer}")"
PARTS=3
PAIRS=9

[[ -x "$PROGRAM" ]] || die "$PROGRAM is not there: build it first (scripts/demo.sh)."
(( EUID == 0 )) || die "Slurm's daemons must be started by root."
for tool in munged slurmctld slurmd sbatch; do
  command -v "$tool" >/dev/null || die "$tool is missing: apt-get install slurm-wlm munge"
done

WORK="$(mktemp -d)"
chmod 755 "$WORK"
daemons=()
stop() {
  # In the reverse order; each by its own number.
  local i
  for (( i = ${#daemons[@]} - 1; i >= 0; i-- )); do
    kill "${daemons[i]}" 2>/dev/null || true
    wait "${daemons[i]}" 2>/dev/null || true
  done
  rm -rf "$WORK"
}
trap stop EXIT

failed() {
  tail -n 20 "$WORK"/*.log >&2 || true
  die "$*"
}

# start NAME COMMAND...: a daemon in the foreground of a job of this script.
start() {
  local name="$1"
  shift
  "$@" >"$WORK/$name.log" 2>&1 &
  daemons+=("$!")
}

start_cluster() {
  local host
  host="$(hostname -s)"
  mkdir -p "$WORK/munge" "$WORK/state" "$WORK/spool"
  dd if=/dev/urandom of="$WORK/munge/key" bs=1024 count=1 status=none
  chmod 700 "$WORK/munge"
  chmod 400 "$WORK/munge/key"
  mkdir -m 755 "$WORK/socket"
  start munged munged --foreground --force --key-file="$WORK/munge/key" --socket="$WORK/socket/munge" \
    --pid-file="$WORK/munge/pid" --log-file="$WORK/munged.log" --seed-file="$WORK/munge/seed"
  export SLURM_CONF="$WORK/slurm.conf"
  # More cores than there are, so that all parts run at once.
  cat >"$SLURM_CONF" <<CONF
ClusterName=check
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=26817
SlurmdPort=26818
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$WORK/socket/munge
StateSaveLocation=$WORK/state
SlurmdSpoolDir=$WORK/spool
SlurmctldPidFile=$WORK/slurmctld.pid
SlurmdPidFile=$WORK/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=16 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  start slurmctld slurmctld -D
  start slurmd slurmd -D
  for (( i = 0; i < 60; i++ )); do
    if sinfo -h -o %T 2>/dev/null | grep -q '^idle'; then return; fi
    sleep 1
  done
  failed "the node does not become idle"
}

make_pairs() {
  local sources=("$ROOT"/examples/rgb/*.jpg) source i
  mkdir -p "$WORK/rgb" "$WORK/depth"
  for (( i = 0; i < PAIRS; i++ )); do
    source="${sources[i % ${#sources[@]}]}"
    cp "$source" "$WORK/rgb/$i.jpg"
    cp "$ROOT/examples/depth/$(basename "$source" .jpg).png" "$WORK/depth/$i.png"
  done
}

# The program that part 1 runs when it is to be lost: it ends before it writes anything.
cat >"$WORK/lost" <<LOST
#!/usr/bin/env bash
if [[ "\${SLURM_ARRAY_TASK_ID:-\$SLURM_PROCID}" == 1 ]]; then kill -9 \$\$; fi
exec "$PROGRAM" "\$@"
LOST
chmod +x "$WORK/lost"

# submit OUT SCRIPT OPTIONS...: waits for the job; its exit status.
submit() {
  local out="$1" script="$2"
  shift 2
  mkdir -p "$WORK/$out"
  sbatch --quiet --wait --chdir="$WORK/$out" --cpus-per-task=1 "$@" "$script" \
    --device cpu --size 64 --threads 1 --rgb "$WORK/rgb" --depth "$WORK/depth" --out maps
}

# Every pair in exactly one of the manifests, and the maps of a run without Slurm.
check_whole() {
  local out="$1" names
  names="$(cat "$WORK/$out"/*.jsonl | grep -o '"name":"[^"]*"' | sort)"
  [[ "$(wc -l <<<"$names")" == "$PAIRS" && "$(uniq <<<"$names" | wc -l)" == "$PAIRS" ]] \
    || failed "$out: the manifests do not name each of the $PAIRS pairs once: $names"
  (( $(find "$WORK/$out" -name '*.jsonl' -size +0 | wc -l) > 1 )) || failed "$out: one process did everything"
  diff -r "$WORK/alone" "$WORK/$out/maps" >&2 || failed "$out: the maps differ from those of one run"
  say "$out: $PAIRS pairs, each once; maps equal to those of a run without Slurm"
}

# check NAME SCRIPT OPTIONS...
check() {
  local name="$1" script="$2" before
  shift 2
  HDFNET_INFER="$PROGRAM" submit "$name" "$script" "$@" || failed "$name: exit status $?"
  check_whole "$name"

  if HDFNET_INFER="$WORK/lost" submit "$name-lost" "$script" "$@"; then
    failed "$name: a lost process does not show in the job's exit status"
  fi
  before="$(find "$WORK/$name-lost/maps" -name '*.png' | wc -l)"
  (( before > 0 && before < PAIRS )) || failed "$name: $before maps of $PAIRS after a lost process"
  rm "$WORK/$name-lost"/*.jsonl
  HDFNET_INFER="$PROGRAM" submit "$name-lost" "$script" "$@" || failed "$name, again: exit status $?"
  say "$name-lost: $before maps without the lost process, the others by submitting again:"
  check_whole "$name-lost"
}

make_pairs
"$PROGRAM" --quiet --device cpu --size 64 --threads 1 --rgb "$WORK/rgb" --depth "$WORK/depth" \
  --out "$WORK/alone" >/dev/null
start_cluster
say "$(sinfo --version) on $(. /etc/os-release && echo "$PRETTY_NAME"), $PARTS processes; $("$PROGRAM" --version | head -n 1)"
check array "$ROOT/configs/slurm/array.sbatch" --array="0-$(( PARTS - 1 ))"
check srun "$ROOT/configs/slurm/srun.sbatch" --ntasks="$PARTS"
say "configs/slurm/ works under this Slurm"
