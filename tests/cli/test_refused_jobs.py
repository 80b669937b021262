"""What is printed of a job that a cluster refuses to start."""

from profkit.cli import run

REFUSED = (
    "Error in rule convert_baseline:",
    "    message: SLURM sbatch failed. The error message was 'sbatch: error: invalid account'.",
    "    log: {log} (check log file(s) for error details)",
)


def printed(log, capsys):
    output = run.SnakemakeOutput()
    for line in REFUSED:
        output.read_line(line.format(log=log))
    run._print_outcome(1, output, [])
    return capsys.readouterr().err


def test_a_job_without_a_log_is_told_by_what_snakemake_says(tmp_path, capsys):
    assert "sbatch: error: invalid account" in printed(tmp_path / "never.log", capsys)


def test_a_log_is_enough(tmp_path, capsys):
    log = tmp_path / "job.log"
    log.write_text("disk full\n")
    said = printed(log, capsys)
    assert "disk full" in said
    assert "sbatch" not in said
