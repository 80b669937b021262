"""Metric names of the labels on pages of details."""

import re
from collections.abc import Mapping
from types import MappingProxyType

# Labels stand for one metric each, but for these two.
_OF_SECTION: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("GPU Speed Of Light Throughput", "Memory Throughput"): (
            "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
        ),
        ("Memory Workload Analysis", "Memory Throughput"): "dram__bytes.sum.per_second",
        ("GPU Speed Of Light Throughput", "SM Frequency"): "gpc__cycles_elapsed.avg.per_second",
    }
)
_STALL = re.compile(r"Stall (?P<reason>[A-Za-z ]+)")
_PER_ISSUE = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"

# Versions changed some labels; none came to mean something else.
_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "Theoretical L1/TEX Cache Bytes Accessible": (
            "derived__l1tex__lsu_writeback_bytes_mem_lg.sum.peak_sustained"
        ),
        "L1 Cache Bandwidth (Global/Local)": (
            "derived__l1tex__lsu_writeback_bytes_mem_lg.sum.per_second"
        ),
        "Theoretical Tensor Operations": "derived__sm__inst_executed_pipe_tensor_x512",
        "Theoretical Predicated-On DFMA Operations": (
            "derived__sm__sass_thread_inst_executed_op_dfma_pred_on_x2"
        ),
        "Theoretical Predicated-On FFMA Operations": (
            "derived__sm__sass_thread_inst_executed_op_ffma_pred_on_x2"
        ),
        "Theoretical Predicated-On HFMA Operations": (
            "derived__sm__sass_thread_inst_executed_op_hfma_pred_on_x2"
        ),
        "Branch Instructions Ratio": "derived__smsp__inst_executed_op_branch_pct",
        "Tensor Operations Per Cycle": "derived__smsp__inst_executed_pipe_tensor_x512",
        "Predicated-On DFMA Operations Per Cycle": (
            "derived__smsp__sass_thread_inst_executed_op_dfma_pred_on_x2"
        ),
        "Predicated-On FFMA Operations Per Cycle": (
            "derived__smsp__sass_thread_inst_executed_op_ffma_pred_on_x2"
        ),
        "Predicated-On HFMA Operations Per Cycle": (
            "derived__smsp__sass_thread_inst_executed_op_hfma_pred_on_x2"
        ),
        "Theoretical DRAM Bytes Accessible": "dram__bytes.sum.peak_sustained",
        "DRAM Bandwidth": "dram__bytes.sum.per_second",
        "Average DRAM Active Cycles": "dram__cycles_active.avg",
        "DRAM Frequency": "dram__cycles_elapsed.avg.per_second",
        "Total DRAM Elapsed Cycles": "dram__cycles_elapsed.sum",
        "SM Frequency": "gpc__cycles_elapsed.avg.per_second",
        "Elapsed Cycles": "gpc__cycles_elapsed.max",
        "Mem Busy": "gpu__compute_memory_access_throughput.avg.pct_of_peak_sustained_elapsed",
        "Max Bandwidth": "gpu__compute_memory_request_throughput.avg.pct_of_peak_sustained_elapsed",
        "Memory [%]": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "DRAM Throughput": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "SOL DRAM": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "Duration": "gpu__time_duration.sum",
        "Average L1 Active Cycles": "l1tex__cycles_active.avg",
        "L1/TEX Cache Frequency": "l1tex__cycles_elapsed.avg.per_second",
        "Total L1 Elapsed Cycles": "l1tex__cycles_elapsed.sum",
        "Theoretical L2 Cache Bytes Accessible": (
            "l1tex__m_xbar2l1tex_read_bytes.sum.peak_sustained"
        ),
        "L2 Cache Bandwidth": "l1tex__m_xbar2l1tex_read_bytes.sum.per_second",
        "L1/TEX Hit Rate": "l1tex__t_sector_hit_rate.pct",
        "L1/TEX Cache Throughput": "l1tex__throughput.avg.pct_of_peak_sustained_active",
        "SOL L1/TEX Cache": "l1tex__throughput.avg.pct_of_peak_sustained_active",
        "Block Size": "launch__block_size",
        "Function Cache Configuration": "launch__func_cache_config",
        "Grid Size": "launch__grid_size",
        "Block Limit SM": "launch__occupancy_limit_blocks",
        "Block Limit Registers": "launch__occupancy_limit_registers",
        "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
        "Block Limit Warps": "launch__occupancy_limit_warps",
        "Registers Per Thread": "launch__registers_per_thread",
        "Shared Memory Configuration Size": "launch__shared_mem_config_size",
        "Driver Shared Memory Per Block": "launch__shared_mem_per_block_driver",
        "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
        "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
        "# SMs": "launch__sm_count",
        "Threads": "launch__thread_count",
        "Uses Green Context": "launch__uses_green_context",
        "Waves Per SM": "launch__waves_per_multiprocessor",
        "L2 Compression Success Rate": "lts__average_gcomp_input_sector_success_rate.pct",
        "L2 Compression Ratio": "lts__average_gcomp_output_sector_compression_achieved_rate.ratio",
        "Average L2 Active Cycles": "lts__cycles_active.avg",
        "L2 Cache Frequency": "lts__cycles_elapsed.avg.per_second",
        "Total L2 Elapsed Cycles": "lts__cycles_elapsed.sum",
        "L2 Hit Rate": "lts__t_sector_hit_rate.pct",
        "L2 Cache Throughput": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
        "SOL L2 Cache": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
        "Average SM Active Cycles": "sm__cycles_active.avg",
        "SM Active Cycles": "sm__cycles_active.avg",
        "Total SM Elapsed Cycles": "sm__cycles_elapsed.sum",
        "Executed Ipc Active": "sm__inst_executed.avg.per_cycle_active",
        "Executed Ipc Elapsed": "sm__inst_executed.avg.per_cycle_elapsed",
        "ADU": "sm__inst_executed_pipe_adu.avg.pct_of_peak_sustained_active",
        "CBU": "sm__inst_executed_pipe_cbu.avg.pct_of_peak_sustained_active",
        "LSU": "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active",
        "TEX": "sm__inst_executed_pipe_tex.avg.pct_of_peak_sustained_active",
        "Uniform": "sm__inst_executed_pipe_uniform.avg.pct_of_peak_sustained_active",
        "XU": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
        "Issue Slots Busy": "sm__inst_issued.avg.pct_of_peak_sustained_active",
        "Issued Ipc Active": "sm__inst_issued.avg.per_cycle_active",
        "SM Busy": "sm__instruction_throughput.avg.pct_of_peak_sustained_active",
        "Theoretical Active Warps per SM": "sm__maximum_warps_avg_per_active_cycle",
        "Selected": "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio",
        "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
        "Mem Pipes Busy": "sm__memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "Shared (FP64+FP16+Tensor)": (
            "sm__pipe_shared_cycles_active.avg.pct_of_peak_sustained_active"
        ),
        "Tensor (All)": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "Theoretical Predicated-On DFMA Thread Instructions Executed": (
            "sm__sass_thread_inst_executed_op_dfma_pred_on.sum.peak_sustained"
        ),
        "Theoretical Predicated-On FFMA Thread Instructions Executed": (
            "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained"
        ),
        "Compute (SM) Throughput": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "SM [%]": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "Compute (SM) [%]": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "Achieved Occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
        "Achieved Active Warps Per SM": "sm__warps_active.avg.per_cycle_active",
        "Warp Cycles Per Issued Instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
        "Warp Cycles Per Executed Instruction": (
            "smsp__average_warps_active_per_inst_executed.ratio"
        ),
        "Average SMSP Active Cycles": "smsp__cycles_active.avg",
        "Total SMSP Elapsed Cycles": "smsp__cycles_elapsed.sum",
        "Avg. Executed Instructions Per Scheduler": "smsp__inst_executed.avg",
        "Executed Instructions": "smsp__inst_executed.sum",
        "Branch Instructions": "smsp__inst_executed_op_branch.sum",
        "Avg. Issued Instructions Per Scheduler": "smsp__inst_issued.avg",
        "Issued Instructions": "smsp__inst_issued.sum",
        "One or More Eligible": "smsp__issue_active.avg.pct_of_peak_sustained_active",
        "Issued Warp Per Scheduler": "smsp__issue_active.avg.per_cycle_active",
        "No Eligible": "smsp__issue_inst0.avg.pct_of_peak_sustained_active",
        "Theoretical Warps Per Scheduler": "smsp__maximum_warps_avg_per_active_cycle",
        "Branch Efficiency": "smsp__sass_average_branch_targets_threads_uniform.pct",
        "Avg. Divergent Branches": "smsp__sass_branch_targets_threads_divergent.avg",
        "Predicated-On DADD Thread Instructions Executed Per Cycle": (
            "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum.per_cycle_elapsed"
        ),
        "Predicated-On DFMA Thread Instructions Executed Per Cycle": (
            "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum.per_cycle_elapsed"
        ),
        "Predicated-On DMUL Thread Instructions Executed Per Cycle": (
            "smsp__sass_thread_inst_executed_op_dmul_pred_on.sum.per_cycle_elapsed"
        ),
        "Predicated-On FADD Thread Instructions Executed Per Cycle": (
            "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed"
        ),
        "Predicated-On FFMA Thread Instructions Executed Per Cycle": (
            "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed"
        ),
        "Predicated-On FMUL Thread Instructions Executed Per Cycle": (
            "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum.per_cycle_elapsed"
        ),
        "Predicated-On HADD Thread Instructions Executed Per Cycle": (
            "smsp__sass_thread_inst_executed_op_hadd_pred_on.sum.per_cycle_elapsed"
        ),
        "Predicated-On HMUL Thread Instructions Executed Per Cycle": (
            "smsp__sass_thread_inst_executed_op_hmul_pred_on.sum.per_cycle_elapsed"
        ),
        "Avg. Active Threads Per Warp": "smsp__thread_inst_executed_per_inst_executed.ratio",
        "Avg. Not Predicated Off Threads Per Warp": (
            "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"
        ),
        "GPU Maximum Warps Per Scheduler": "smsp__warps_active.avg.peak_sustained",
        "Active Warps Per Scheduler": "smsp__warps_active.avg.per_cycle_active",
        "Eligible Warps Per Scheduler": "smsp__warps_eligible.avg.per_cycle_active",
    }
)


def metric_name(section: str, label: str) -> str:
    """Return the metric that `label` means in the section `section`, or the label if unknown."""
    if stall := _STALL.fullmatch(label):
        return _PER_ISSUE.format(stall["reason"].lower().replace(" ", "_"))
    return _OF_SECTION.get((section, label)) or _NAMES.get(label, label)
