"""NCCL's interface through ctypes, as far as rank.py needs it."""
import ctypes
import os
import pathlib
import time

import report

FLOAT, SUM = 7, 0
IN_PROGRESS = 7


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class NcclError(Exception):
    """A call failed; the text is the library's."""


class Library:
    def __init__(self):
        self._library = ctypes.CDLL(report.library())
        for name in ("ncclGetLastError", "ncclGetErrorString"):
            getattr(self._library, name).restype = ctypes.c_char_p

    def call(self, name, *arguments):
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            text = self.last_error() or self._library.ncclGetErrorString(code).decode()
            raise NcclError(f"{name}: {code}, {text}")

    def last_error(self, communicator=None):
        return (self._library.ncclGetLastError(communicator) or b"").decode()

    def join(self, ranks, rank, id_file):
        """A communicator of so many processes, which meet by a file that rank 0 writes."""
        unique = UniqueId()
        path = pathlib.Path(id_file)
        if rank == 0:
            self.call("ncclGetUniqueId", ctypes.byref(unique))
            begun = path.with_name(path.name + ".begun")
            begun.write_bytes(bytes(unique))
            os.rename(begun, path)
        else:
            while not path.exists():
                time.sleep(0.002)
            ctypes.memmove(ctypes.byref(unique), path.read_bytes(), ctypes.sizeof(unique))
        return Communicator(self, ranks, rank, unique)


def pointers(*addresses):
    return [ctypes.c_void_p(address) for address in addresses]


class Communicator:
    """Of this process's one rank."""

    def __init__(self, library, ranks, rank, unique):
        self._library = library
        self.ranks, self.rank = ranks, rank
        self.handle = ctypes.c_void_p()
        library.call("ncclCommInitRank", ctypes.byref(self.handle), ctypes.c_int(ranks), unique,
                     ctypes.c_int(rank))

    def all_reduce(self, send, receive, count, stream):
        self._library.call("ncclAllReduce", *pointers(send, receive), ctypes.c_size_t(count), FLOAT,
                           SUM, self.handle, stream)

    def every_collective(self, send, receive, count, stream):
        """Each once, over `count` floats a rank; the buffers hold that of every rank."""
        size, call = ctypes.c_size_t(count), self._library.call
        pair = pointers(send, receive)
        end = (self.handle, stream)
        call("ncclAllReduce", *pair, size, FLOAT, SUM, *end)
        call("ncclBroadcast", *pair, size, FLOAT, 0, *end)
        call("ncclReduce", *pair, size, FLOAT, SUM, 0, *end)
        call("ncclAllGather", *pair, size, FLOAT, *end)
        call("ncclReduceScatter", *pair, size, FLOAT, SUM, *end)
        call("ncclAlltoAll", *pair, size, FLOAT, *end)
        call("ncclGather", *pair, size, FLOAT, 0, *end)
        call("ncclScatter", *pair, size, FLOAT, 0, *end)
        call("ncclGroupStart")
        call("ncclSend", pair[0], size, FLOAT, (self.rank + 1) % self.ranks, *end)
        call("ncclRecv", pair[1], size, FLOAT, (self.rank - 1) % self.ranks, *end)
        call("ncclGroupEnd")

    def fault(self):
        """What ended the communicator; "" where nothing has."""
        state = ctypes.c_int()
        self._library.call("ncclCommGetAsyncError", self.handle, ctypes.byref(state))
        if state.value in (0, IN_PROGRESS):
            return ""
        return f"{state.value}, {self._library.last_error(self.handle)}"

    def abort(self):
        self._library.call("ncclCommAbort", self.handle)

    def destroy(self):
        self._library.call("ncclCommDestroy", self.handle)
