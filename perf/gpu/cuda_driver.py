"""The CUDA driver through ctypes, so that nothing need be compiled. Whichever libcuda.so.1 the
dynamic linker finds."""
import ctypes
import mmap
import time

Address = ctypes.c_uint64
Handle = ctypes.c_void_p
WAIT_GEQ = 0
NON_BLOCKING = 1
HOST_REGISTER_PORTABLE_MAPPED = 3

# Without these ctypes would pass 64-bit values as int.
ARGUMENTS = {
    "cuMemAlloc_v2": [ctypes.POINTER(Address), ctypes.c_size_t],
    "cuMemFree_v2": [Address],
    "cuMemcpyAsync": [Address, Address, ctypes.c_size_t, Handle],
    "cuMemcpyDtoDAsync_v2": [Address, Address, ctypes.c_size_t, Handle],
    "cuMemsetD8Async": [Address, ctypes.c_ubyte, ctypes.c_size_t, Handle],
    "cuStreamSynchronize": [Handle],
    "cuStreamDestroy_v2": [Handle],
    "cuStreamWaitValue32_v2": [Handle, Address, ctypes.c_uint32, ctypes.c_uint],
    "cuStreamWriteValue32_v2": [Handle, Address, ctypes.c_uint32, ctypes.c_uint],
    "cuLaunchHostFunc": [Handle, ctypes.c_void_p, ctypes.c_void_p],
    "cuMemHostRegister_v2": [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint],
    "cuMemHostGetDevicePointer_v2": [ctypes.POINTER(Address), ctypes.c_void_p, ctypes.c_uint],
    "cuCtxSetCurrent": [Handle],
    "cuModuleLoadData": [ctypes.POINTER(Handle), ctypes.c_char_p],
    "cuModuleGetFunction": [ctypes.POINTER(Handle), Handle, ctypes.c_char_p],
    "cuLaunchKernel": [Handle] + [ctypes.c_uint] * 7 + [Handle, ctypes.c_void_p, ctypes.c_void_p],
    "cuMemRelease": [ctypes.c_uint64],
    "cuMemExportToShareableHandle": [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int, ctypes.c_uint64],
    "cuMemCreate": [ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint64],
    "cuStreamBeginCapture_v2": [Handle, ctypes.c_int],
    "cuStreamEndCapture": [Handle, ctypes.POINTER(Handle)],
    "cuGraphGetNodes": [Handle, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)],
    "cuGraphNodeGetType": [Handle, ctypes.POINTER(ctypes.c_int)],
    "cuGraphDestroy": [Handle],
    "cuIpcGetMemHandle": [ctypes.c_void_p, Address],
}


class CudaError(Exception):
    """A call of the driver failed; `code` is what it returned, None where it has no such call."""

    def __init__(self, call, code, name):
        super().__init__(f"{call}: {name}")
        self.code = code


class Driver:
    """Device 0, with its primary context current for the thread that makes this, for good."""

    def __init__(self):
        self._library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, self._context = ctypes.c_int(), Handle()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.device = device.value
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), self.device)
        self.make_current()

    def make_current(self):
        """For the thread that calls."""
        self.call("cuCtxSetCurrent", self._context)

    def call(self, name, *arguments):
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise CudaError(name, None, "the driver has no such call") from None
        function.argtypes = ARGUMENTS.get(name)
        code = function(*arguments)
        if code != 0:
            raise CudaError(name, code, self._name_of(code))

    def _name_of(self, code):
        text = ctypes.c_char_p()
        self._library.cuGetErrorName(code, ctypes.byref(text))
        return f"{text.value.decode()} ({code})" if text.value else f"error {code}"

    def attribute(self, number):
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), number, self.device)
        return value.value

    def version(self):
        value = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(value))
        return f"{value.value // 1000}.{value.value % 1000 // 10}"

    def name(self):
        text = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", text, 128, self.device)
        return text.value.decode()

    def stream(self):
        handle = Handle()
        self.call("cuStreamCreateWithPriority", ctypes.byref(handle), NON_BLOCKING, 0)
        return handle

    def synchronize(self, stream):
        self.call("cuStreamSynchronize", stream)

    def allocate(self, size):
        address = Address()
        self.call("cuMemAlloc_v2", ctypes.byref(address), size)
        return address.value

    def free(self, address):
        self.call("cuMemFree_v2", address)

    def free_bytes(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def wait_value(self, stream, address, value):
        self.call("cuStreamWaitValue32_v2", stream, address, value, WAIT_GEQ)

    def write_value(self, stream, address, value):
        self.call("cuStreamWriteValue32_v2", stream, address, value, 0)


class Pinned:
    """Host memory that the device reaches. Stays for as long as the process."""
    _all = []

    def __init__(self, driver, size):
        self._all.append(self)
        pages = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE
        self._map = mmap.mmap(-1, pages)
        self.host = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        driver.call("cuMemHostRegister_v2", self.host, pages, HOST_REGISTER_PORTABLE_MAPPED)
        address = Address()
        driver.call("cuMemHostGetDevicePointer_v2", ctypes.byref(address), self.host, 0)
        self.device = address.value
        self.words = (ctypes.c_uint32 * (pages // 4)).from_buffer(self._map)


def until(condition, seconds):
    """Spins until `condition()`; False when it did not come true in time."""
    deadline = time.perf_counter() + seconds
    while not condition():
        if time.perf_counter() > deadline:
            return False
    return True


# Runs until the word is not 0, or that many nanoseconds have passed.
SPIN_PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 word, .param .u64 nanoseconds)
{
  .reg .pred %p<3>;
  .reg .u32 %r<2>;
  .reg .u64 %rd<5>;
  ld.param.u64 %rd1, [word];
  ld.param.u64 %rd2, [nanoseconds];
  mov.u64 %rd3, %globaltimer;
  add.u64 %rd3, %rd3, %rd2;
again:
  ld.volatile.u32 %r1, [%rd1];
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra done;
  mov.u64 %rd4, %globaltimer;
  setp.lt.u64 %p2, %rd4, %rd3;
  @%p2 bra again;
done:
  ret;
}
"""


class Spin:
    """A kernel of one thread a block that runs for a while."""

    def __init__(self, driver):
        self._driver = driver
        module, self._function = Handle(), Handle()
        driver.call("cuModuleLoadData", ctypes.byref(module), SPIN_PTX)
        driver.call("cuModuleGetFunction", ctypes.byref(self._function), module, b"spin")

    def launch(self, stream, word, nanoseconds, blocks=1):
        first, second = ctypes.c_uint64(word), ctypes.c_uint64(nanoseconds)
        arguments = (ctypes.c_void_p * 2)(ctypes.addressof(first), ctypes.addressof(second))
        self._driver.call("cuLaunchKernel", self._function, blocks, 1, 1, 1, 1, 1, 0, stream,
                          ctypes.cast(arguments, ctypes.c_void_p), None)
