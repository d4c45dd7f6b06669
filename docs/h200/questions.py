"""Asks a real card what the simulated one must know, and prints the answers. Needs nothing but the driver."""

import ctypes
import threading

cu = ctypes.CDLL("libcuda.so.1")


def name(code):
    text = ctypes.c_char_p()
    cu.cuGetErrorName(code, ctypes.byref(text))
    return (text.value or b"?").decode()


def call(function, *arguments):
    return name(getattr(cu, function)(*arguments))


def free():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    code = call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return code, free.value, total.value


def device_of_context():
    device = ctypes.c_int(-1)
    code = call("cuCtxGetDevice", ctypes.byref(device))
    return code, device.value


def used(pool):
    value = ctypes.c_uint64()
    code = call("cuMemPoolGetAttribute", pool, 7, ctypes.byref(value))
    return code, value.value


print("cuCtxGetDevice before cuInit:", device_of_context())
print("cuInit:", call("cuInit", 0))
print("cuCtxGetDevice with no context:", device_of_context())
device = ctypes.c_int()
cu.cuDeviceGet(ctypes.byref(device), 0)
total = ctypes.c_size_t()
cu.cuDeviceTotalMem_v2(ctypes.byref(total), device)
print("cuDeviceTotalMem:", total.value)
pool = ctypes.c_void_p()
print("default pool with no context:", call("cuDeviceGetDefaultMemPool", ctypes.byref(pool), device))
print("its USED with no context:", used(pool))
context = ctypes.c_void_p()
print("retain:", call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device))
cu.cuCtxSetCurrent(context)
code, left, whole = free()
print("cuMemGetInfo with a fresh context:", code, "free", left, "total", whole, "taken", whole - left)
pointer = ctypes.c_uint64()
print("alloc:", call("cuMemAllocAsync", ctypes.byref(pointer), ctypes.c_size_t(1 << 20), None))
code, after, _ = free()
print("free after 1 MiB from the pool:", after, "less by", left - after)
print("USED:", used(pool))


def elsewhere():
    print("a thread with no context: cuCtxGetDevice", device_of_context())
    print("  USED", used(pool), "cuMemFreeAsync", call("cuMemFreeAsync", pointer, None))
    print("  cuMemAllocAsync", call("cuMemAllocAsync", ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(1), None))


thread = threading.Thread(target=elsewhere)
thread.start()
thread.join()
print("release:", call("cuDevicePrimaryCtxRelease_v2", device))
print("after the last release: cuCtxGetDevice", device_of_context())
print("  cuMemGetInfo", free()[0], "USED", used(pool))
print("  cuMemAllocAsync", call("cuMemAllocAsync", ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(1), None))
print("retain again:", call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device))
print("  cuCtxGetDevice", device_of_context(), "USED", used(pool))
again = ctypes.c_void_p()
cu.cuDeviceGetDefaultMemPool(ctypes.byref(again), device)
print("  the default pool is the same handle:", again.value == pool.value)
print("reset:", call("cuDevicePrimaryCtxReset_v2", device))
print("  cuCtxGetDevice", device_of_context(), "USED", used(pool))
own = (ctypes.c_byte * 88)()
# CUmemPoolProps: pinned allocations, no handle type, device 0.
ctypes.memset(own, 0, 88)
ctypes.cast(own, ctypes.POINTER(ctypes.c_int))[0] = 1
ctypes.cast(own, ctypes.POINTER(ctypes.c_int))[2] = 1
cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
cu.cuCtxSetCurrent(context)
mine = ctypes.c_void_p()
print("pool of our own:", call("cuMemPoolCreate", ctypes.byref(mine), own))
print("made current:", call("cuDeviceSetMemPool", device, mine))
print("destroyed:", call("cuMemPoolDestroy", mine))
current = ctypes.c_void_p()
cu.cuDeviceGetMemPool(ctypes.byref(current), device)
default = ctypes.c_void_p()
cu.cuDeviceGetDefaultMemPool(ctypes.byref(default), device)
print("the current pool is the default one again:", current.value == default.value)
