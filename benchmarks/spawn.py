"""Start processes that find each other: `python spawn.py 2 python script.py`. Each is kept on a core of its own.

The variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say to each who it is. The output of the first one is shown.
"""

import os
import socket
import subprocess
import sys


def main() -> int:
    count, command = int(sys.argv[1]), sys.argv[2:]
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
    processes, cores = [], sorted(os.sched_getaffinity(0))
    for rank in range(count):
        environ = os.environ | {'RANK': str(rank), 'LOCAL_RANK': str(rank), 'WORLD_SIZE': str(count), 'MASTER_ADDR': '127.0.0.1',
                                'MASTER_PORT': str(port)}
        os.sched_setaffinity(0, {cores[rank % len(cores)]})         # a child stays where its parent was
        processes.append(subprocess.Popen(command, env=environ, stdout=None if rank == 0 else subprocess.DEVNULL))
    return max(abs(p.wait()) for p in processes)


if __name__ == '__main__':
    sys.exit(main())
