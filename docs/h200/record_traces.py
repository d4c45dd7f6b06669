#!/usr/bin/env python3
"""Records how the CUDA driver's memory pool answers sequences of operations: record_traces.py FOLDER [SECONDS]

Needs nothing but Python 3.8 and the driver (libcuda.so.1). Writes at most eight files of JSON lines; a file holds several
traces one after another, and each starts with a line whose op is "pool". Every other line is one operation in the order
made, with the pool's counters just after it; `offset` is a block's address less the trace's first block's address.

Ops: alloc, free, sync (cuStreamSynchronize), sync_all (cuCtxSynchronize), trim (cuMemPoolTrimTo), threshold (sets the
release threshold), query (cuStreamQuery), hold (work is queued on the stream that waits for a flag), let_go (the flag is
raised, a millisecond passes, no call into the driver is made), event_record, event_sync, event_query, event_wait
(cuStreamWaitEvent), free_sync (cuMemFree of a pool's block), attribute (a reuse attribute of the pool is set).
`blocked: true`: the call did not return while streams were held; they were let go to end it. `free` is cuMemGetInfo's.
"""
import ctypes as C
import json
import os
import random
import sys
import threading
import time

M = 1 << 20
G = 32 * M
MAX = (1 << 64) - 1
cu = C.CDLL("libcuda.so.1")
P = C.c_void_p


def check(code, what):
    if code:
        raise RuntimeError(f"{what}: CUDA error {code}")


class Props(C.Structure):
    _fields_ = [("allocType", C.c_int), ("handleTypes", C.c_int), ("locType", C.c_int), ("locId", C.c_int),
                ("win32", P), ("maxSize", C.c_size_t), ("usage", C.c_ushort), ("reserved", C.c_ubyte * 54)]


for name, args in {
    "cuMemAllocFromPoolAsync": [P, C.c_size_t, P, P], "cuMemFreeAsync": [C.c_uint64, P], "cuMemPoolTrimTo": [P, C.c_size_t],
    "cuMemPoolGetAttribute": [P, C.c_int, P], "cuMemPoolSetAttribute": [P, C.c_int, P], "cuStreamSynchronize": [P],
    "cuStreamQuery": [P], "cuStreamWaitValue32_v2": [P, C.c_uint64, C.c_uint32, C.c_uint], "cuEventRecord": [P, P],
    "cuEventSynchronize": [P], "cuEventQuery": [P], "cuStreamWaitEvent": [P, P, C.c_uint], "cuMemPoolDestroy": [P],
    "cuMemFree_v2": [C.c_uint64], "cuStreamDestroy_v2": [P], "cuMemAlloc_v2": [P, C.c_size_t],
}.items():
    getattr(cu, name).argtypes = args

check(cu.cuInit(0), "cuInit")
dev = C.c_int()
check(cu.cuDeviceGet(C.byref(dev), 0), "cuDeviceGet")
ctx = P()
check(cu.cuDevicePrimaryCtxRetain(C.byref(ctx), dev), "cuDevicePrimaryCtxRetain")
check(cu.cuCtxSetCurrent(ctx), "cuCtxSetCurrent")
host = P()
check(cu.cuMemHostAlloc(C.byref(host), C.c_size_t(4096), C.c_uint(3)), "cuMemHostAlloc")
flags = C.cast(host, C.POINTER(C.c_uint32))
flag_dev = C.c_uint64()
check(cu.cuMemHostGetDevicePointer_v2(C.byref(flag_dev), host, C.c_uint(0)), "cuMemHostGetDevicePointer")

call_since = [0.0]
held_flags = {}
forced = [False]


def watchdog():
    while True:
        time.sleep(0.05)
        since = call_since[0]
        if since and held_flags and time.monotonic() - since > 0.4:
            forced[0] = True
            for index, value in list(held_flags.items()):
                flags[index] = value


threading.Thread(target=watchdog, daemon=True).start()


def free_memory():
    free, total = C.c_size_t(), C.c_size_t()
    cu.cuMemGetInfo_v2(C.byref(free), C.byref(total))
    return free.value


class Trace:
    slot = 0

    def __init__(self, out, name, max_size=0, threshold=0, streams=1, null=False):
        self.out, self.lines = out, 0
        props = Props(allocType=1, locType=1, locId=0, maxSize=max_size)
        self.pool = P()
        check(cu.cuMemPoolCreate(C.byref(self.pool), C.byref(props)), "cuMemPoolCreate")
        self.streams = []
        for i in range(streams):
            s = P()
            if not (null and i == 0):
                check(cu.cuStreamCreate(C.byref(s), C.c_uint(1)), "cuStreamCreate")
            self.streams.append(s)
        self.held = set()
        self.marks = {}
        self.base = Trace.slot
        Trace.slot = (Trace.slot + streams) % 900
        self.values = [flags[self.base + i] for i in range(streams)]
        self.blocks, self.order, self.first, self.next = {}, [], None, 0
        v = C.c_uint64(threshold)
        check(cu.cuMemPoolSetAttribute(self.pool, 4, C.byref(v)), "threshold")
        self.out.write(json.dumps({"op": "pool", "name": name, "max_size": max_size, "release_threshold": threshold,
                                   "streams": streams, "null": null, "free": free_memory()}) + "\n")

    def line(self, op, **more):
        v = C.c_uint64()
        row = {"op": op, **more}
        for key, attribute in (("used", 7), ("reserved", 5), ("used_high", 8), ("reserved_high", 6)):
            check(cu.cuMemPoolGetAttribute(self.pool, attribute, C.byref(v)), "cuMemPoolGetAttribute")
            row[key] = v.value
        if forced[0]:
            row["blocked"] = True
            forced[0] = False
            self.held.clear()
            held_flags.clear()
        self.out.write(json.dumps(row) + "\n")
        self.lines += 1

    def call(self, function, *args):
        call_since[0] = time.monotonic()
        code = function(*args)
        call_since[0] = 0.0
        return code

    def alloc(self, size, stream=0):
        p = C.c_uint64()
        code = self.call(cu.cuMemAllocFromPoolAsync, C.byref(p), size, self.pool, self.streams[stream])
        i, self.next = self.next, self.next + 1
        if code:
            self.line("alloc", id=i, bytes=size, stream=stream, ok=False, error=code, free=free_memory())
            return None
        if self.first is None:
            self.first = p.value
        self.blocks[i] = p.value
        self.order.append(i)
        self.line("alloc", id=i, bytes=size, stream=stream, ok=True, offset=p.value - self.first)
        return i

    def free(self, i, stream=0):
        if i is None:
            return
        check(self.call(cu.cuMemFreeAsync, self.blocks.pop(i), self.streams[stream]), "cuMemFreeAsync")
        self.order.remove(i)
        self.line("free", id=i, stream=stream)

    def free_sync(self, i):
        check(self.call(cu.cuMemFree_v2, self.blocks.pop(i)), "cuMemFree")
        self.order.remove(i)
        self.line("free_sync", id=i)

    def sync(self, stream=0):
        if stream in self.held:
            self.let_go(stream)
        check(self.call(cu.cuStreamSynchronize, self.streams[stream]), "cuStreamSynchronize")
        self.line("sync", stream=stream)

    def sync_all(self):
        for s in list(self.held):
            self.let_go(s)
        check(self.call(cu.cuCtxSynchronize), "cuCtxSynchronize")
        self.line("sync_all")

    def query(self, stream=0):
        code = self.call(cu.cuStreamQuery, self.streams[stream])
        self.line("query", stream=stream, result=code)

    def trim(self, keep=0):
        check(self.call(cu.cuMemPoolTrimTo, self.pool, keep), "cuMemPoolTrimTo")
        self.line("trim", keep=keep)

    def threshold(self, value):
        v = C.c_uint64(value)
        check(cu.cuMemPoolSetAttribute(self.pool, 4, C.byref(v)), "threshold")
        self.line("threshold", bytes=value)

    def attribute(self, which, value):
        v = C.c_int(value)
        check(cu.cuMemPoolSetAttribute(self.pool, which, C.byref(v)), "attribute")
        names = {1: "reuse_follow_event_dependencies", 2: "reuse_allow_opportunistic", 3: "reuse_allow_internal_dependencies"}
        self.line("attribute", name=names[which], value=value)

    def hold(self, stream):
        if stream in self.held:
            return
        self.values[stream] += 1
        held_flags[self.base + stream] = self.values[stream]
        check(cu.cuStreamWaitValue32_v2(self.streams[stream], flag_dev.value + 4 * (self.base + stream),
                                        self.values[stream], 0), "cuStreamWaitValue32")
        self.held.add(stream)
        self.line("hold", stream=stream)

    def let_go(self, stream):
        if stream not in self.held:
            return
        flags[self.base + stream] = self.values[stream]
        held_flags.pop(self.base + stream, None)
        self.held.discard(stream)
        time.sleep(0.001)
        self.line("let_go", stream=stream)

    def event(self, key):
        if key not in self.marks:
            e = P()
            check(cu.cuEventCreate(C.byref(e), C.c_uint(2)), "cuEventCreate")
            self.marks[key] = e
        return self.marks[key]

    def event_record(self, key, stream):
        check(cu.cuEventRecord(self.event(key), self.streams[stream]), "cuEventRecord")
        self.line("event_record", event=key, stream=stream)

    def event_sync(self, key):
        check(self.call(cu.cuEventSynchronize, self.event(key)), "cuEventSynchronize")
        self.line("event_sync", event=key)

    def event_query(self, key):
        code = cu.cuEventQuery(self.event(key))
        self.line("event_query", event=key, result=code)

    def event_wait(self, key, stream):
        check(cu.cuStreamWaitEvent(self.streams[stream], self.event(key), 0), "cuStreamWaitEvent")
        self.line("event_wait", event=key, stream=stream)

    def end(self):
        for s in list(self.held):
            self.let_go(s)
        for i in list(self.order):
            self.free(i, 0)
        for s in range(len(self.streams)):
            self.sync(s)
        self.trim(0)
        for s in self.streams:
            if s.value:
                cu.cuStreamDestroy_v2(s)
        check(cu.cuMemPoolDestroy(self.pool), "cuMemPoolDestroy")


def alternate(out, size, threshold=MAX, cap=1 << 30):
    t = Trace(out, f"alternate-{size // M}m-{'max' if threshold == MAX else threshold}", cap, threshold)
    ids = []
    while (i := t.alloc(size)) is not None:
        ids.append(i)
    for i in ids[::2]:
        t.free(i)
    for after in (False, False, True):
        for k in (1, 2, 3, 4, 8):
            i = t.alloc(k * size)
            if i is not None:
                t.free(i)
            if after or threshold == 0:
                t.sync()
        t.sync()
        if not after:
            t.trim(0)
    t.end()


def window(out, name, size, threshold, rng, n=600, keep=20, sync_every=20, **more):
    """A queue of `keep` live blocks: the oldest goes, a new one comes."""
    t = Trace(out, name, threshold=threshold, **more)
    for k in range(n):
        if len(t.order) >= keep:
            t.free(t.order[0])
        t.alloc(size(rng))
        if sync_every and k % sync_every == sync_every - 1:
            t.sync()
    t.end()


def mixed_size(rng):
    kind = rng.random()
    if kind < 0.35:
        return rng.randint(1, 4096)
    if kind < 0.6:
        return rng.randint(4096, M)
    if kind < 0.9:
        return rng.randint(M, 40 * M)
    return rng.randint(40 * M, 120 * M)


def mib_size(rng):
    return rng.randint(1, 80) * (M // 2)


def granule_size(rng):
    return rng.choice([1, 1, 2, 3, 4, 6]) * G // rng.choice([1, 1, 2]) + rng.choice([0, 0, 0, 4 * M])


def wander(out, name, size, rng, n=600, target=24, streams=1, threshold=MAX, cap=0, p_sync=0.03, p_trim=0.0, keep=None,
           p_hold=0.0, p_query=0.0, p_event=0.0, p_sync_all=0.0, p_threshold=0.0, p_free_sync=0.0, attributes=(), null=False,
           same_stream=False):
    """Random allocations and frees around a number of live blocks, with all else at the given chances."""
    t = Trace(out, name, cap, threshold, streams, null)
    for which, value in attributes:
        t.attribute(which, value)
    home = {}
    for _ in range(n):
        s = rng.randrange(streams)
        if rng.random() < p_sync:
            if s not in t.held or rng.random() < 0.3:
                t.sync(s)
        if rng.random() < p_sync_all and not t.held:
            t.sync_all()
        if rng.random() < p_trim:
            t.trim(keep(rng) if keep else 0)
        if rng.random() < p_hold:
            t.hold(s) if s not in t.held else t.let_go(s)
        if rng.random() < p_query:
            t.query(s)
        if rng.random() < p_threshold:
            t.threshold(rng.choice([0, MAX, 8 * G, 16 * G]))
        if rng.random() < p_event:
            kind = rng.randrange(4)
            key = rng.randrange(4)
            if kind == 0 or key not in t.marks:
                t.event_record(key, s)
            elif kind == 1:
                t.event_wait(key, s)
            elif kind == 2:
                t.event_query(key)
            elif not t.held:
                t.event_sync(key)
        if t.order and rng.random() < len(t.order) / (2 * target):
            i = rng.choice(t.order)
            if rng.random() < p_free_sync and not t.held:
                t.free_sync(i)
            else:
                t.free(i, home[i] if same_stream else s)
        else:
            i = t.alloc(size(rng), s)
            if i is not None:
                home[i] = s
    t.end()


def kinds(out):
    for size in (40, 24, 48, 100, 8, 2, 12, 36):
        alternate(out, size * M)
        alternate(out, size * M, 0)
    for seed in range(3):
        for threshold in (0, MAX, 10 * G, 15 * G + 5):
            rng = random.Random(seed * 7 + 1)
            window(out, f"varlen-{threshold}-{seed}", mib_size, threshold, rng)
            window(out, f"bucketed-{threshold}-{seed}", lambda r: r.choice([1, 2, 3, 4]) * 10 * M, threshold, rng)
    for seed in range(3):
        for threshold in (0, MAX, 6 * G):
            rng = random.Random(seed * 11 + 2)
            wander(out, f"random-{threshold}-{seed}", mixed_size, rng, threshold=threshold, p_trim=0.005, target=40, n=900)
    for seed in range(2):
        rng = random.Random(seed + 70)
        wander(out, f"small-{seed}", lambda r: r.randint(1, 256 << 10), rng, n=2500, target=300, p_sync=0.0007)


def several_streams(out):
    for seed in range(4):
        for streams in (2, 3):
            for threshold in (0, MAX):
                rng = random.Random(seed * 13 + streams)
                wander(out, f"streams{streams}-{threshold}-{seed}", mib_size, rng, streams=streams, threshold=threshold,
                       null=seed == 3, p_sync=0.05)
    for seed in range(2):
        rng = random.Random(seed + 500)
        wander(out, f"streams-small-{seed}", mixed_size, rng, streams=3, n=1500, target=80, threshold=0, same_stream=True)


def capped(out):
    for seed in range(6):
        for threshold in (0, MAX, 8 * G):
            for name, size in (("mib", mib_size), ("granule", granule_size), ("mixed", mixed_size)):
                rng = random.Random(seed * 17 + 5)
                wander(out, f"capped-{name}-{threshold}-{seed}", size, rng, n=350, target=30, threshold=threshold,
                       cap=(512 * M if seed % 2 else 512 * M + 5 * M), p_trim=0.01 if seed % 3 else 0.0)


def trims(out):
    for seed in range(4):
        rng = random.Random(seed * 19 + 6)
        wander(out, f"trim-keep-{seed}", mib_size, rng, p_trim=0.06, keep=lambda r: r.choice([0, 1, 5 * G, 10 * G + 1, 14 * G]))
        wander(out, f"trim-keep-granule-{seed}", granule_size, rng, p_trim=0.06, keep=lambda r: r.randrange(0, 30 * G))
        wander(out, f"thresholds-{seed}", mib_size, rng, p_threshold=0.05, p_sync=0.06, threshold=0)
        wander(out, f"thresholds-granule-{seed}", granule_size, rng, p_threshold=0.05, p_sync=0.06, threshold=12 * G)
        wander(out, f"free-sync-{seed}", mib_size, rng, p_free_sync=0.2, threshold=0 if seed % 2 else MAX)
        wander(out, f"sync-all-{seed}", mib_size, rng, p_sync_all=0.05, p_sync=0.02, threshold=0, streams=2)


def held(out):
    for seed in range(5):
        for streams in (1, 2, 3):
            rng = random.Random(seed * 23 + 7)
            wander(out, f"held{streams}-{seed}", mib_size, rng, n=400, streams=streams, threshold=0 if seed % 2 else MAX,
                   p_hold=0.06, p_sync=0.03, p_query=0.02 if seed > 2 else 0.0, p_trim=0.01 if seed == 4 else 0.0)
    for seed in range(2):
        rng = random.Random(seed * 23 + 8)
        wander(out, f"held-capped-{seed}", mib_size, rng, n=300, streams=2, cap=512 * M, threshold=MAX, p_hold=0.06)
    for which, value in ((2, 0), (3, 0), (1, 0)):
        for seed in range(2):
            rng = random.Random(seed * 29 + which)
            wander(out, f"reuse{which}-off-{seed}", mib_size, rng, n=300, streams=2, threshold=0, p_sync=0.03,
                   p_hold=0.04 if seed else 0.0, attributes=((which, value),))


def events(out):
    for seed in range(6):
        rng = random.Random(seed * 31 + 9)
        wander(out, f"events-{seed}", mib_size, rng, n=400, streams=2, threshold=0 if seed % 2 else MAX, p_event=0.12,
               p_hold=0.05 if seed > 2 else 0.0, p_sync=0.01)
    for seed in range(2):
        rng = random.Random(seed * 31 + 10)
        wander(out, f"queries-{seed}", mib_size, rng, n=400, streams=2, threshold=0, p_query=0.1, p_sync=0.01)


def single_rules(out):
    # What a failed request leaves behind in a capped pool, and where.
    for threshold in (0, MAX):
        t = Trace(out, f"failed-growth-{threshold}", 1 << 30, threshold)
        a = t.alloc(700 * M)
        t.alloc(512 * M)
        t.alloc(20 * M)
        t.alloc(40 * M)
        t.sync()
        t.alloc(512 * M)
        t.free(a)
        t.alloc(512 * M)
        t.end()
        # Forty-MiB holes whose whole granules could move for a request that then fails.
        t = Trace(out, f"failed-move-{threshold}", 1 << 30, threshold)
        ids = [t.alloc(40 * M) for _ in range(25)]
        for i in ids[::2]:
            t.free(i)
        for size in (320, 40, 320, 80, 160, 40):
            t.alloc(size * M)
        t.end()
    # Which wholly free granule moves first: five holes of one granule, freed in a mixed order; then where they are missed.
    for seed in range(8):
        t = Trace(out, f"which-moves-{seed}", 20 * G, MAX)
        ids = [t.alloc(G) for _ in range(20)]
        order = ids[1:19:2]
        random.Random(seed).shuffle(order)
        for i in order:
            t.free(i)
        if seed % 2:
            t.sync()
        t.alloc(2 * G)
        for _ in range(8):
            t.alloc(G)
        t.end()
    # A trim that keeps some: which go.
    for seed in range(8):
        t = Trace(out, f"which-trimmed-{seed}", 0, MAX)
        ids = [t.alloc(G) for _ in range(20)]
        order = ids[1:19:2]
        random.Random(seed + 50).shuffle(order)
        for i in order:
            t.free(i)
        if seed % 4 < 3:
            t.sync()
        t.trim(15 * G)
        for _ in range(10):
            t.alloc(G)
        t.end()
        t = Trace(out, f"which-released-{seed}", 0, 15 * G)
        ids = [t.alloc(G) for _ in range(20)]
        for i in [ids[k] for k in sorted(range(1, 19, 2), key=lambda k: random.Random(seed * 100 + k).random())]:
            t.free(i)
        t.sync()
        t.sync()
        for _ in range(10):
            t.alloc(G)
        t.end()


def nearly_full(out):
    filler = C.c_uint64()
    size = free_memory() - 3 * 1024 * M
    check(cu.cuMemAlloc_v2(C.byref(filler), size), "cuMemAlloc")
    try:
        for seed in range(4):
            for threshold in (0, MAX):
                rng = random.Random(seed * 37 + 11)
                wander(out, f"nearly-full-{threshold}-{seed}", lambda r: r.choice([mib_size(r), 4 * mib_size(r), 8 * mib_size(r)]),
                       rng, n=200, target=60, threshold=threshold, p_trim=0.01 if seed % 2 else 0.0)
    finally:
        cu.cuMemFree_v2(filler)


def main():
    folder, limit = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 55.0
    os.makedirs(folder, exist_ok=True)
    start = time.monotonic()
    groups = [("rules", single_rules), ("kinds", kinds), ("streams", several_streams), ("capped", capped), ("trims", trims),
              ("held", held), ("events", events), ("full", nearly_full)]
    for name, group in groups:
        if time.monotonic() - start > limit:
            print(f"{name}: left out, out of time")
            continue
        began = time.monotonic()
        with open(os.path.join(folder, f"{name}.jsonl"), "w") as out:
            try:
                group(out)
                error = ""
            except Exception as e:  # the other groups still run
                error = f", stopped by {e}"
        print(f"{name}: {time.monotonic() - began:.1f} s, {os.path.getsize(out.name) // 1024} KiB{error}", flush=True)


main()
