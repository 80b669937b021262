for analysis, needs in dag.plan.analyses.items():
    folder = dag.folder(analysis)

    rule:
        name:
            f"analyze_{analysis}"
        input:
            tables=dag.tables(analysis),
            results=dag.results(analysis),
        output:
            f"{folder}/analyze/{analysis}.json",
        log:
            f"{folder}/logs/analyze/{analysis}.log",
        localrule: True
        conda:
            "../../envs/analyze.yaml"
        params:
            analysis=analysis,
            code=needs.code,
            settings=dag.analysis_settings(analysis),
            run_flags=dag.run_flags(analysis),
            usage=f"{folder}/benchmarks/analyze/{analysis}.tsv",
            results=workflow_dag.result_flags,
            attempt=dag.analysis_attempt(analysis),
        shell:
            "profkit analyze {params.analysis} --settings {params.settings:q}"
            " {params.run_flags:q}"
            " --tables {input.tables} {params.results}"
            " --usage {params.usage} --attempt {params.attempt} --out {output} > {log} 2>&1"
            " && (test -e {output} || exit 125)"
            " || profkit failed analyze {params.analysis} --status $? --log {log}"
            " --attempt {params.attempt} --out {output}"
