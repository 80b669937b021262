rule report:
    input:
        selection=dag.selection(),
        shown=shown,
    output:
        "results/report.html",
    log:
        "results/logs/report.log",
    conda:
        "../../envs/analyze.yaml"
    params:
        code=dag.plan.report_code,
        attempt=dag.report_attempt(),
        settings=workflow_dag.as_json(dag.plan.report),
    shell:
        "profkit report --selection {input.selection} --settings {params.settings:q}"
        " --attempt {params.attempt} --out {output} > {log} 2>&1"
