"""Runs the command of its arguments once two messages wait for it, as a server does that takes long to start."""

import subprocess
import sys

if __name__ == "__main__":
    first = [sys.stdin.buffer.readline() for _ in range(2)]
    with subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE) as server:
        assert server.stdin is not None
        server.stdin.writelines(first)
        server.stdin.flush()
        for line in sys.stdin.buffer:
            server.stdin.write(line)
            server.stdin.flush()
        server.stdin.close()
