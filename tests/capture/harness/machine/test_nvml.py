"""NVML's answers, from a module that stands for the real one: no GPU is needed."""

from types import SimpleNamespace

import pynvml
import pytest

from profkit.capture.harness.machine import nvml


class FakeNvml:
    """Answers like ``pynvml`` on a machine with one H100; only names that ``pynvml`` has."""

    NVMLError = pynvml.NVMLError

    def __init__(self, **answers):
        memory = SimpleNamespace(total=85520809984, free=1, used=2)
        self.answers = {
            "nvmlSystemGetDriverVersion": "570.86.15",
            "nvmlSystemGetCudaDriverVersion_v2": 12080,
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3",
            "nvmlDeviceGetUUID": "GPU-1",
            "nvmlDeviceGetMemoryInfo": memory,
            "nvmlDeviceGetMaxClockInfo": {1: 1980, 2: 2619},
            "nvmlDeviceGetClockInfo": {1: 1755, 2: 2619},
            "nvmlDeviceGetEnforcedPowerLimit": 700000,
            "nvmlDeviceGetPowerManagementDefaultLimit": 700000,
            "nvmlDeviceGetCurrPcieLinkGeneration": 5,
            "nvmlDeviceGetMaxPcieLinkGeneration": 5,
            "nvmlDeviceGetCurrPcieLinkWidth": 16,
            "nvmlDeviceGetEccMode": [1, 1],
            "nvmlDeviceGetMigMode": [0, 0],
            "nvmlDeviceGetNvLinkState": dict.fromkeys(range(18), 1),
            "nvmlDeviceGetPowerUsage": 123456,
            "nvmlDeviceGetTemperature": {0: 61},
            "nvmlDeviceGetCurrentClocksEventReasons": 0x4 | 0x20,
            "nvmlInit": None,
            "nvmlShutdown": None,
            **answers,
        }

    def __getattr__(self, name):
        real = getattr(pynvml, name)
        return self.answering(name) if callable(real) else real

    def answering(self, name):
        def call(*arguments):
            answer = self.answers.get(name, pynvml.NVMLError_NotSupported())
            if isinstance(answer, dict):
                answer = answer.get(arguments[-1], pynvml.NVMLError_InvalidArgument())
            if isinstance(answer, pynvml.NVMLError):
                raise answer
            return answer

        return call


DEVICE = {
    "name": "NVIDIA H100 80GB HBM3",
    "uuid": "GPU-1",
    "memory_bytes": 85520809984,
    "sm_clock_max_mhz": 1980,
    "memory_clock_max_mhz": 2619,
    "power_limit_w": 700.0,
    "power_limit_default_w": 700.0,
    "pcie_generation": 5,
    "pcie_generation_max": 5,
    "pcie_width": 16,
    "ecc": True,
    "mig": False,
    "nvlink_count": 18,
}


def test_a_device_is_described_with_its_units_in_the_names():
    with nvml.opened(FakeNvml()) as library:
        assert nvml.system(library) == {"driver": "570.86.15", "cuda_driver": "12.8"}
        assert nvml.devices(library) == [DEVICE]


def test_the_state_of_a_device_says_why_its_clocks_are_held_down():
    with nvml.opened(FakeNvml()) as library:
        assert nvml.states(library) == [
            {
                "sm_clock_mhz": 1755,
                "memory_clock_mhz": 2619,
                "power_w": 123.456,
                "temperature_c": 61,
                "throttle_reasons": ["sw_power_cap", "sw_thermal_slowdown"],
            }
        ]


def test_a_driver_from_before_the_calls_were_renamed_is_asked_by_the_old_name():
    old = FakeNvml(
        nvmlDeviceGetCurrentClocksEventReasons=pynvml.NVMLError_FunctionNotFound(),
        nvmlDeviceGetCurrentClocksThrottleReasons=0,
    )
    assert nvml.states(old)[0]["throttle_reasons"] == []


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0, []),
        (0x1, ["gpu_idle"]),
        (0x48, ["hw_slowdown", "hw_thermal_slowdown"]),
        (0x80 | 0x1000, ["hw_power_brake_slowdown", "0x1000"]),
    ],
    ids=["nothing", "idle", "two reasons", "a reason without a word"],
)
def test_throttle_reasons_become_words(bits, words):
    assert nvml.throttle_words(pynvml, bits) == words


def test_what_a_device_does_not_tell_is_left_out():
    silent = FakeNvml(
        **{
            name: pynvml.NVMLError_NotSupported()
            for name in FakeNvml().answers
            if name.startswith("nvmlDeviceGet")
            and name.endswith(("Info", "State", "Mode", "Limit"))
        }
    )
    (device,) = nvml.devices(silent)
    assert device == {
        key: DEVICE[key]
        for key in ("name", "uuid", "pcie_generation", "pcie_generation_max", "pcie_width")
    }


def test_a_gpu_that_is_lost_is_left_out():
    lost = FakeNvml(nvmlDeviceGetCount=2, nvmlDeviceGetHandleByIndex={0: "handle"})
    assert [device["uuid"] for device in nvml.devices(lost)] == ["GPU-1"]


def test_without_a_driver_there_is_nothing_to_ask():
    absent = FakeNvml(nvmlInit=pynvml.NVMLError_LibraryNotFound())
    with nvml.opened(absent) as library:
        assert library is None


def field(number, value, kind=3, answer=0):
    made = pynvml.c_nvmlFieldValue_t(fieldId=number, valueType=kind, nvmlReturn=answer)
    made.value.ullVal = value
    return made


READING = {
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=97, memory=41),
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=9, free=1, used=8),
    "nvmlDeviceGetTotalEnergyConsumption": 5_432_100,
}
STATE = {
    "sm_clock_mhz": 1755,
    "memory_clock_mhz": 2619,
    "power_w": 123.456,
    "temperature_c": 61,
    "throttled_sw_power_cap": 1,
    "throttled_sw_thermal_slowdown": 1,
    "busy_percent": 97,
    "memory_busy_percent": 41,
    "memory_used_bytes": 8,
    "energy_j": 5432.1,
}


def test_a_reading_holds_use_energy_and_what_went_over_the_links():
    fields = [field(197, 100), field(198, 200), field(138, 3), field(139, 4)]
    fake = FakeNvml(**READING, nvmlDeviceGetFieldValues=fields)
    assert nvml.readings(fake, "handle") == STATE | {
        "pcie_sent_bytes": 100,
        "pcie_received_bytes": 200,
        "nvlink_sent_bytes": 3 * 1024,
        "nvlink_received_bytes": 4 * 1024,
    }


def test_a_gpu_that_does_not_count_pcie_traffic_is_asked_for_its_rate():
    unsupported = [field(number, 0, answer=pynvml.NVML_ERROR_NOT_SUPPORTED) for number in range(4)]
    rates = {pynvml.NVML_PCIE_UTIL_TX_BYTES: 12, pynvml.NVML_PCIE_UTIL_RX_BYTES: 34}
    fake = FakeNvml(
        **READING, nvmlDeviceGetFieldValues=unsupported, nvmlDeviceGetPcieThroughput=rates
    )
    assert nvml.readings(fake, "handle") == STATE | {
        "pcie_sent_bytes_per_s": 12_000,
        "pcie_received_bytes_per_s": 34_000,
    }


def test_a_gpu_without_any_counter_still_says_its_state():
    fake = FakeNvml()
    state = {name: value for name, value in STATE.items() if name in nvml.readings(fake, "handle")}
    assert nvml.readings(fake, "handle") == state | {"memory_used_bytes": 2}
    assert "energy_j" not in state


def test_a_gpu_is_found_by_the_identity_that_cuda_gives_it():
    known = FakeNvml(nvmlDeviceGetHandleByUUID={"GPU-1": "handle"})
    assert nvml.handle_of(known, "1") == nvml.handle_of(known, "GPU-1") == "handle"
    assert nvml.handle_of(known, "2") is None
