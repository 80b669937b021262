for analysis, needs in dag.plan.analyses.items():
    folder = dag.folder(analysis)

    rule:
        name:
            f"analyze_{analysis}"
        input:
            tables=dag.tables(analysis),
            results=dag.results(analysis),
            maps=dag.batches.maps(analysis),
        output:
            f"{folder}/analyze/{analysis}.json",
        log:
            f"{folder}/logs/analyze/{analysis}.log",
        priority: dag.plan.waiting_for(analysis)
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


for analysis in dag.batches.mapped_analyses():

    # Of a run with more ranks than `ranks_per_job`: `analyze_<analysis>` goes on with these.
    rule:
        name:
            f"map_{analysis}"
        input:
            tables=dag.tables(analysis),
        output:
            f"results/runs/{{run}}/maps/{analysis}/{{batch}}.json",
        log:
            f"results/runs/{{run}}/logs/maps/{analysis}.{{batch}}.log",
        priority: dag.plan.waiting_for(analysis)
        conda:
            "../../envs/analyze.yaml"
        params:
            analysis=analysis,
            code=dag.plan.analyses[analysis].map_code,
            settings=dag.batches.map_settings(analysis),
            ranks=dag.batches.ranks,
            usage=f"results/runs/{{run}}/benchmarks/maps/{analysis}.{{batch}}.tsv",
            attempt=dag.batches.map_attempt(analysis),
        shell:
            "profkit analyze {params.analysis} --settings {params.settings:q}"
            " --ranks {params.ranks} --tables {input.tables}"
            " --usage {params.usage} --attempt {params.attempt} --out {output} > {log} 2>&1"
            " || profkit failed analyze {params.analysis} --status $? --log {log}"
            " --attempt {params.attempt} --out {output}"
