# profkit: capture -> convert -> analyze -> report.
# snakemake --cores 4 results/report.html --config overrides="+tool=py_spy batch=4"
from snakemake.utils import min_version

min_version("9.17")


include: "workflow/rules/common.smk"


is_whole = workflow.is_main_process and completed.is_whole(sys.argv)

# To look into each job takes four seconds for a hundred runs.
if not (is_whole and completed.is_unchanged(dag)):

    include: "workflow/rules/capture.smk"
    include: "workflow/rules/convert.smk"
    include: "workflow/rules/analyze.smk"
    include: "workflow/rules/timeline.smk"


include: "workflow/rules/report.smk"


onstart:
    gc.freeze()
    gc.enable()
    snakemake_pace.without_rate(workflow.scheduler)
    snakemake_pace.ask_sizes_once(workflow.scheduler)
    snakemake_pace.look_at_few(workflow.scheduler)
    snakemake_jobs.cancel_all(workflow.scheduler)
    if not workflow.remote_exec:
        job_environment.start_job_server(dag.plan.analyses)
    if workflow.is_main_process and workflow.local_exec:
        job_environment.start_loaded_launchers(
            dag.run(job.wildcards)
            for job in workflow.dag.needrun_jobs()
            if job.rule.name.startswith("capture_")
        )
    for damage in damages(dag):
        logger.warning(damage)


onsuccess:
    # Jobs that failed have left a record that says so, for the report to show.
    if failed := list(unreported_failures(dag)):
        raise WorkflowError("\n".join(failed))
    if is_whole:
        completed.remember(dag)


rule all:
    default_target: True
    input:
        "results/report.html",
