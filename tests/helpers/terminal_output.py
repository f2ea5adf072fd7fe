"""What a command writes to a terminal."""

import fcntl
import os
import pty
import struct
import termios
import threading

END = b"\x00end of the output\x00"


def open_terminal(columns, rows=24):
    """Both ends of a new terminal: what reads it, and what a command writes to. OSError where there is none."""
    reading, writing = pty.openpty()
    fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    return reading, writing


def read_terminal(reading, writing, process):
    """All that was written until the process ended, and close both ends.

    The writing end stays open until everything has been read: when the last one is closed, Linux may report
    the end (EIO) to the reader before it has delivered the last lines."""
    def mark_end():
        process.wait()
        os.write(writing, END)

    waiting = threading.Thread(target=mark_end)
    waiting.start()
    data = b""
    while END not in data:
        data += os.read(reading, 65536)
    waiting.join()
    os.close(writing)
    os.close(reading)
    return data[:data.index(END)]
