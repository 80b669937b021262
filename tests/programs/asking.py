"""A server of asyncio that answers on an executor's thread, and goes on for as long as it may.

With ``well`` it ends well at an interrupt, with ``itself`` it answers in the loop's own thread, and
with both it answers whatever is raised meanwhile.
"""

import asyncio
import signal
import sys

import torch
from torch import nn

model = nn.Linear(64, 8).eval()


def answered():
    with torch.inference_mode():
        return model(torch.ones(4, 64)).sum().item()


async def answer(reader, writer):
    await reader.readline()
    if "itself" in sys.argv:
        try:
            made = answered()
        except BaseException as error:  # as servers answer with an error of their own
            if "well" not in sys.argv:
                raise
            made = repr(error)
            print(made)
    else:
        made = await asyncio.get_running_loop().run_in_executor(None, answered)
    writer.write(f"{made}\n".encode())
    await writer.drain()
    writer.close()


async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    stopped = asyncio.Event()
    if "well" in sys.argv:
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stopped.set)
    # One that asks nothing: the end of the program cuts it off.
    waiting = await asyncio.open_connection("127.0.0.1", port)
    while waiting and not stopped.is_set():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"ask\n")
        await reader.readline()
        writer.close()
        await asyncio.sleep(0.05)
    waiting[1].close()
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)
    print("stopped")


asyncio.run(main())
