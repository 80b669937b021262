from profkit.convert.linking.origin import Origin
from profkit.convert.torch_profiler.devices import devices
from profkit.convert.torch_profiler.header import Header

CUDA = {
    "id": 1,
    "name": "Tesla T4",
    "totalGlobalMem": 15843721216,
    "computeMajor": 7,
    "computeMinor": 5,
    "maxThreadsPerMultiprocessor": 1024,
    "regsPerMultiprocessor": 65536,
    "warpSize": 32,
    "sharedMemPerMultiprocessor": 65536,
    "numSms": 40,
}
HIP = {"name": "AMD Instinct MI210", "numSms": 104, "maxSharedMemoryPerMultiProcessor": 65536}


def test_every_device_that_a_trace_describes_is_a_row():
    assert devices(Header(deviceProperties=[CUDA, HIP]), Origin(rank=3, repeat=0)).to_pylist() == [
        {
            "rank": 3,
            "repeat": 0,
            "device": 1,
            "name": "Tesla T4",
            "capability": "7.5",
            "memory_bytes": 15843721216,
            "processors": 40,
            "threads_per_processor": 1024,
            "warp_threads": 32,
            "registers_per_processor": 65536,
            "shared_memory_bytes": 65536,
        },
        {
            "rank": 3,
            "repeat": 0,
            "device": -1,
            "name": "AMD Instinct MI210",
            "capability": "",
            "memory_bytes": -1,
            "processors": 104,
            "threads_per_processor": -1,
            "warp_threads": -1,
            "registers_per_processor": -1,
            "shared_memory_bytes": 65536,
        },
    ]


def test_what_is_no_list_of_devices_gives_no_row():
    for given in (None, {}, "x", [1, None]):
        assert devices(Header(deviceProperties=given), Origin(rank=0, repeat=0)).num_rows == 0


def test_a_number_that_is_none_is_unknown():
    odd = {
        "numSms": 2**40,
        "warpSize": -5,
        "totalGlobalMem": 1.5,
        "maxThreadsPerMultiprocessor": None,
    }
    (row,) = devices(Header(deviceProperties=[odd]), Origin(rank=0, repeat=0)).to_pylist()
    columns = ("processors", "warp_threads", "memory_bytes", "threads_per_processor")
    assert [row[name] for name in columns] == [-1, -1, -1, -1]
