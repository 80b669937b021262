if dag.history_inputs():

    rule history:
        input:
            dag.history_inputs(),
        output:
            "results/selection/analyze/history.json",
        log:
            "results/selection/logs/analyze/history.log",
        localrule: True
        conda:
            "../../envs/analyze.yaml"
        params:
            code=dag.history_code(),
            attempt=dag.history_attempt(),
        shell:
            "profkit history --made-of {input} --attempt {params.attempt} --out {output}"
            " > {log} 2>&1 && (test -e {output} || exit 125)"
            " || profkit failed analyze history --status $? --log {log}"
            " --attempt {params.attempt} --out {output}"


rule report:
    input:
        selection=dag.selection(),
        shown=shown,
    output:
        "results/report.html",
    log:
        "results/logs/report.log",
    localrule: True
    conda:
        "../../envs/analyze.yaml"
    params:
        code=dag.plan.report_code,
        attempt=dag.report_attempt(),
        settings=workflow_dag.as_json(dag.plan.report),
    shell:
        "profkit report --selection {input.selection} --settings {params.settings:q}"
        " --attempt {params.attempt} --out {output} > {log} 2>&1"
