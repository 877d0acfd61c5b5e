"""Processes that make data. One that dies ends the run, which otherwise would go on slowly and unnoticed."""
import multiprocessing as mp
import queue
from multiprocessing.connection import wait


class WorkerDied(RuntimeError):
    pass


def start(target, *args, name):
    """A process that ends with this one."""
    p = mp.Process(target=target, args=args, name=name, daemon=True)
    p.start()
    return p


def check(processes):
    """Raises where a process has ended with an error or by a signal."""
    for p in processes:
        if p.exitcode:
            raise WorkerDied(f"{p.name} died with exit code {p.exitcode}")


def running(processes, seconds):
    """Waits until one ends, or so many seconds. Whether any still runs."""
    alive = {p.sentinel: p for p in processes if p.is_alive()}
    for ended in wait(list(alive), seconds):
        alive.pop(ended).join()
    check(processes)
    return bool(alive)


def take(q, processes, seconds=2.0):
    """The next item of a queue that processes fill."""
    while True:
        check(processes)
        try:
            return q.get(timeout=seconds)
        except queue.Empty:
            if not any(p.is_alive() for p in processes):
                check(processes)
                raise WorkerDied("all workers have ended: " + ", ".join(p.name for p in processes)) from None


def stop(processes):
    """Ends processes that wait for ever to hand over what they made."""
    for p in processes:
        p.terminate()
