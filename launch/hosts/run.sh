#!/bin/bash
# Ranks on the machines of ./hosts, started over ssh (keys, no passwords):  launch/hosts/run.sh train.py [arguments]
# The launcher passes environment and directory on, so the program must be at the same path on every machine.
set -eu
here=$(dirname "$0")
ranks=$(awk -F: '!/^#/ && NF {n += $2} END {print n}' "$here/hosts")
# A network interface other than the one of the default route:  export HYDRA_IFACE=eth1
exec mpirun -f "$here/hosts" -n "$ranks" python "$@"
