"""Serves an empty file system that writes a file of its own before it answers what is in it.

A tracer that asks it for a name waits for the server, and the server waits for the tracer.
"""
import ctypes, os, struct, sys

libc = ctypes.CDLL(None, use_errno=True)
fuse = os.open("/dev/fuse", os.O_RDWR)
os.mkdir("mounted")
options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
if libc.mount(b"fuse", b"mounted", b"fuse", 0, options):
    sys.exit(f"mount: {ctypes.get_errno()}")

child = os.fork()
if child == 0:
    os.close(fuse)
    try:
        open("mounted/name", "r+")
    except FileNotFoundError:
        os._exit(0)
    os._exit(1)

LOOKUP, GETATTR, INIT = 1, 3, 26
ROOT = struct.pack("QQQQQQIIIIIIIIII", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755, 2, 0, 0, 0, 4096, 0)
while os.waitpid(child, os.WNOHANG) == (0, 0):
    import select
    if not select.select([fuse], [], [], 0.05)[0]:
        continue
    request = os.read(fuse, 1 << 17)
    _, opcode, unique = struct.unpack_from("IIQ", request)
    error, body = 0, b""
    if opcode == INIT:
        body = struct.pack("IIII", 7, 31, 0, 0) + struct.pack("HHIIHH", 1, 1, 4096, 1, 1, 0) + bytes(32)
    elif opcode == GETATTR:
        body = struct.pack("QII", 0, 0, 0) + ROOT
    elif opcode == LOOKUP:
        open("written", "a").write("x")
        error = -2
    else:
        error = -38
    try:
        os.write(fuse, struct.pack("IiQ", 16 + len(body), error, unique) + body)
    except FileNotFoundError:
        pass
"""The child has ended, and so has the test."""
