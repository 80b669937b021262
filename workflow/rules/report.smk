rule report:
    input:
        selection=dag.selection(),
        shown=dag.report_inputs(),
    output:
        "results/report.html",
    log:
        "results/logs/report.log",
    conda:
        "../../envs/analyze.yaml"
    params:
        code=dag.plan.report_code,
        missing=dag.missing_counts.get("report", 0),
        settings=workflow_dag.as_json(dag.plan.report),
    shell:
        "profkit report --selection {input.selection} --settings {params.settings:q}"
        " --out {output} > {log} 2>&1"
