"""Readings of NVIDIA's management library (NVML); nothing without a driver.

Values that a GPU or a driver does not have are left out: a missing key is not known.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_MHZ_CLOCKS = {"sm_clock": "NVML_CLOCK_SM", "memory_clock": "NVML_CLOCK_MEM"}
# Bits of nvmlDeviceGetCurrentClocksEventReasons, in the words of NVML's documentation.
_THROTTLE_REASONS = {
    "nvmlClocksThrottleReasonGpuIdle": "gpu_idle",
    "nvmlClocksThrottleReasonApplicationsClocksSetting": "applications_clocks_setting",
    "nvmlClocksThrottleReasonSwPowerCap": "sw_power_cap",
    "nvmlClocksThrottleReasonHwSlowdown": "hw_slowdown",
    "nvmlClocksThrottleReasonSyncBoost": "sync_boost",
    "nvmlClocksThrottleReasonSwThermalSlowdown": "sw_thermal_slowdown",
    "nvmlClocksThrottleReasonHwThermalSlowdown": "hw_thermal_slowdown",
    "nvmlClocksThrottleReasonHwPowerBrakeSlowdown": "hw_power_brake_slowdown",
    "nvmlClocksThrottleReasonDisplayClockSetting": "display_clock_setting",
}
# Kinds of values that nvmlDeviceGetFieldValues answers with, and where it puts them.
_FIELD_VALUES = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal"}
# NVML's "all links together".
_ALL_LINKS = 0xFFFFFFFF


@contextmanager
def opened(library: Any = None) -> Iterator[Any]:
    """Yield the initialised bindings, or None where there is no driver or it does not answer.

    Tests pass a `library` in place of the module ``pynvml``.
    """
    import pynvml

    nvml = library or pynvml
    try:
        nvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def system(nvml: Any) -> dict[str, Any]:
    """Return the version of the driver and the newest CUDA version that it can run."""
    version = _asked(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2)
    return _known(
        driver=_asked(nvml, nvml.nvmlSystemGetDriverVersion),
        # 12080 is 12.8.
        cuda_driver=None if version is None else f"{version // 1000}.{version % 1000 // 10}",
    )


def devices(nvml: Any) -> list[dict[str, Any]]:
    """Return the properties and limits of each GPU of this machine.

    Memory in bytes, clocks in MHz, power limits in W, one GPU after the other in NVML's order.
    """
    return [_device(nvml, handle) for handle in _handles(nvml)]


def states(nvml: Any) -> list[dict[str, Any]]:
    """Return the current state of each GPU of this machine, in the order of `devices`.

    Clocks in MHz, power in W, temperature in °C, use in percent of up to a second;
    ``throttle_reasons`` are NVML's reasons for lower clocks, empty without any.
    """
    return [_state(nvml, handle) for handle in _handles(nvml)]


def _device(nvml: Any, handle: Any) -> dict[str, Any]:
    memory = _asked(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    ecc = _asked(nvml, nvml.nvmlDeviceGetEccMode, handle)
    mig = _asked(nvml, nvml.nvmlDeviceGetMigMode, handle)
    limits = {
        "power_limit_w": nvml.nvmlDeviceGetEnforcedPowerLimit,
        "power_limit_default_w": nvml.nvmlDeviceGetPowerManagementDefaultLimit,
    }
    links = {
        "pcie_generation": nvml.nvmlDeviceGetCurrPcieLinkGeneration,
        "pcie_generation_max": nvml.nvmlDeviceGetMaxPcieLinkGeneration,
        "pcie_width": nvml.nvmlDeviceGetCurrPcieLinkWidth,
    }
    return _known(
        name=_asked(nvml, nvml.nvmlDeviceGetName, handle),
        uuid=_asked(nvml, nvml.nvmlDeviceGetUUID, handle),
        memory_bytes=None if memory is None else int(memory.total),
        **_clocks(nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, "max_mhz"),
        **{name: _watts(_asked(nvml, get, handle)) for name, get in limits.items()},
        **{name: _asked(nvml, get, handle) for name, get in links.items()},
        ecc=None if ecc is None else bool(ecc[0]),
        mig=None if mig is None else bool(mig[0]),
        nvlink_count=_nvlinks(nvml, handle),
    )


def _state(nvml: Any, handle: Any) -> dict[str, Any]:
    sensor = nvml.NVML_TEMPERATURE_GPU
    reasons = _asked(nvml, nvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    if reasons is None:
        # The name before driver 535.
        reasons = _asked(nvml, nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    use = _asked(nvml, nvml.nvmlDeviceGetUtilizationRates, handle)
    return _known(
        busy_percent=None if use is None else use.gpu,
        memory_busy_percent=None if use is None else use.memory,
        **_clocks(nvml, nvml.nvmlDeviceGetClockInfo, handle, "mhz"),
        power_w=_watts(_asked(nvml, nvml.nvmlDeviceGetPowerUsage, handle)),
        temperature_c=_asked(nvml, nvml.nvmlDeviceGetTemperature, handle, sensor),
        throttle_reasons=None if reasons is None else throttle_words(nvml, reasons),
    )


def handle_of(nvml: Any, uuid: str) -> Any:
    """Return NVML's handle of the GPU that CUDA calls `uuid`; None if it does not know it."""
    named = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
    return _asked(nvml, nvml.nvmlDeviceGetHandleByUUID, named)


def readings(nvml: Any, handle: Any) -> dict[str, float]:
    """Return all sensors and counters of a GPU now, by names that end in their unit.

    ``energy_j``, ``pcie_*_bytes`` and ``nvlink_*_bytes`` count up from some moment in the past;
    the others are levels, ``throttled_<reason>`` being there only while the reason holds. The
    driver averages utilisation over up to a second, and renews energy every 20 to 100 ms.
    """
    state = _state(nvml, handle)
    reasons = state.pop("throttle_reasons", [])
    memory = _asked(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    energy_mj = _asked(nvml, nvml.nvmlDeviceGetTotalEnergyConsumption, handle)
    return _known(
        **state,
        **{f"throttled_{reason}": 1 for reason in reasons},
        memory_used_bytes=None if memory is None else int(memory.used),
        energy_j=None if energy_mj is None else energy_mj / 1000,
        **_traffic(nvml, handle),
    )


def _traffic(nvml: Any, handle: Any) -> dict[str, Any]:
    """Return the traffic of PCIe and NVLink if the GPU counts it, else PCIe's rate."""
    counted = _fields(
        nvml,
        handle,
        {
            "pcie_sent_bytes": (nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0),
            "pcie_received_bytes": (nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0),
            "nvlink_sent_kib": (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, _ALL_LINKS),
            "nvlink_received_kib": (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, _ALL_LINKS),
        },
    )
    found = {
        name.replace("_kib", "_bytes"): value * 1024 if name.endswith("_kib") else value
        for name, value in counted.items()
    }
    if "pcie_sent_bytes" not in found:
        # Each of the two calls takes 20 ms, its measuring period.
        for name, kind in (("sent", "TX"), ("received", "RX")):
            which = getattr(nvml, f"NVML_PCIE_UTIL_{kind}_BYTES")
            rate_kb = _asked(nvml, nvml.nvmlDeviceGetPcieThroughput, handle, which)
            found[f"pcie_{name}_bytes_per_s"] = None if rate_kb is None else rate_kb * 1000
    return found


def _fields(nvml: Any, handle: Any, wanted: dict[str, tuple[int, int]]) -> dict[str, Any]:
    """Return the values of fields, given as number and scope, that the GPU has."""
    answers = _asked(nvml, nvml.nvmlDeviceGetFieldValues, handle, list(wanted.values()))
    return {
        name: getattr(answer.value, _FIELD_VALUES[answer.valueType])
        for name, answer in zip(wanted, answers or (), strict=False)
        if answer.nvmlReturn == nvml.NVML_SUCCESS and answer.valueType in _FIELD_VALUES
    }


def throttle_words(nvml: Any, reasons: int) -> list[str]:
    """Return the words for the bits of `reasons`; a bit without a word is given as a number."""
    words, left = [], reasons
    for name, word in _THROTTLE_REASONS.items():
        bit = getattr(nvml, name)
        if reasons & bit:
            words.append(word)
            left &= ~bit
    return [*words, *([hex(left)] if left else [])]


def _handles(nvml: Any) -> Sequence[Any]:
    count = _asked(nvml, nvml.nvmlDeviceGetCount) or 0
    found = [_asked(nvml, nvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
    # A GPU that has fallen off the bus has no handle.
    return [handle for handle in found if handle is not None]


def _clocks(nvml: Any, get: Callable[..., Any], handle: Any, unit: str) -> dict[str, Any]:
    return {
        f"{name}_{unit}": _asked(nvml, get, handle, getattr(nvml, kind))
        for name, kind in _MHZ_CLOCKS.items()
    }


def _nvlinks(nvml: Any, handle: Any) -> int | None:
    """Return how many NVLinks are up; None for a GPU without any."""
    states = []
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        state = _asked(nvml, nvml.nvmlDeviceGetNvLinkState, handle, link)
        if state is None:
            break
        states.append(state)
    return sum(map(bool, states)) if states else None


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _asked(nvml: Any, get: Callable[..., Any], *arguments: Any) -> Any:
    """Return NVML's answer, or None if it is unknown, not permitted, or the call is missing.

    The only place that handles NVML's errors.
    """
    try:
        answer = get(*arguments)
    except nvml.NVMLError:
        return None
    return answer.decode() if isinstance(answer, bytes) else answer


def _known(**facts: Any) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}
