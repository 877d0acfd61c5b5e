"""How far a training has come: by the time in a file, which may change while it runs, or by steps."""
import os
import time


class Clock:
    def __init__(self, end_file=None, steps=0):
        if not end_file and not steps:
            raise SystemExit("give --end-file or --steps")
        self.end_file, self.steps = end_file, steps
        self.begun = time.time()
        self.end = self.begun + 60

    def spent(self):
        return time.time() - self.begun

    def progress(self, step):
        """From 0 at the beginning to 1 at the end."""
        if self.steps:
            return step / self.steps
        if step % 10 == 0:
            self.end = self.read() or max(self.end, time.time() + 60)
        return min(1.0, self.spent() / max(1.0, self.end - self.begun))

    def read(self):
        """The seconds since 1970 in the file, or None where it is missing or half written."""
        try:
            with open(self.end_file) as f:
                return float(f.read())
        except (OSError, ValueError):
            return None


class Timer:
    """Whether so many seconds have passed since it last said so."""

    def __init__(self, seconds):
        self.seconds, self.last = seconds, time.time()

    def due(self):
        return time.time() - self.last > self.seconds

    def restart(self):
        """The seconds since the last start."""
        now = time.time()
        passed, self.last = now - self.last, now
        return passed


def replace(path, write):
    """Lets `write` make a file, which takes its place when it is whole."""
    write(path + ".tmp")
    os.replace(path + ".tmp", path)
