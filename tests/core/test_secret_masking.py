"""What is taken out of a text, and what is left in it."""

import json
import secrets
import shlex

import pytest

from profkit.core.secret_masking import Masker, forms
from profkit.core.secret_urls import MASK

NOTHING = Masker({})


def masked(text, environment=None):
    return Masker(environment or {}).text(text, "text")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('password = "hunter2"', 'password = "[masked]"'),
        ("DB_PASSWORD=hunter2", "DB_PASSWORD=[masked]"),
        ("+    password: str = 'hunter2'", "+    password: str = '[masked]'"),
        ('{"api_key": "abc def", "batch": 2}', '{"api_key": "[masked]", "batch": 2}'),
        (r"{\"secret\": \"a1b2c3\"}", r"{\"secret\": \"[masked]\"}"),
        ("client_secret: s3cr3t-value", "client_secret: [masked]"),
        ("login --password hunter2 --user me", "login --password [masked] --user me"),
        ("train.py --wandb-token=abcdef", "train.py --wandb-token=[masked]"),
        ("train.py --hub-key Abcdefgh1 --lr 1", "train.py --hub-key [masked] --lr 1"),
        ("get.py --pat Abcdefgh1 --cookie Zyx9876", "get.py --pat [masked] --cookie [masked]"),
        ("+ echo 'token:' Abcdefgh1", "+ echo 'token:' [masked]"),
        ("postgres://me:hunter2@db/x", "postgres://[masked]@db/x"),
        ("https://abcdef0123456789abcd@host/x", "https://[masked]@host/x"),
        ("HF_TOKEN\tplain-99\nHOME\t/root", "HF_TOKEN\t[masked]\nHOME\t/root"),
        ("db_password   hunter2 \n", "db_password   [masked] \n"),
        ("| API_KEY | abc123def456 |", "| API_KEY | [masked] |"),
        ("│ passphrase │ hunter2 │", "│ passphrase │ [masked] │"),
        ("setenv DB_PASSWORD hunter2", "setenv DB_PASSWORD [masked]"),
        ("Authorization: Bearer abc.def-ghi_jkl", "Authorization: Bearer [masked]"),
        ("AKIAIOSFODNN7EXAMPLE here", "[masked] here"),
        ("login('hf_" + "aB3" * 11 + "')", "login('[masked]')"),
        ("ghp_" + "a1B2" * 9, MASK),
        ("sk-proj-" + "a1B2" * 9, MASK),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.SflKxw", MASK),
        ("wandb.login(key='" + "0123456789abcdef" * 2 + "')", "wandb.login(key='[masked]')"),
        ('x = "q7Zt0LmW2cV9xKd4RbYh8"', 'x = "[masked]"'),
        (
            "a\n-----BEGIN RSA PRIVATE KEY-----\n+MIIE\n-----END RSA PRIVATE KEY-----\nb",
            "a\n[masked]\nb",
        ),
        ("-----BEGIN PRIVATE KEY-----\nMIIE cut off", MASK),
        ("MYSQL_PWD=x mysql", "MYSQL_PWD=[masked] mysql"),
        ("curl -u me:hunter2 https://h", "curl -u me:[masked] https://h"),
        ("sshpass -p hunter2 ssh h", "sshpass -p [masked] ssh h"),
        ("['sshpass', '-p', 'hunter2', 'ssh']", "['sshpass', '-p', '[masked]', 'ssh']"),
        ("machine h login me password hunter2", "machine h login me password [masked]"),
        ("http --user=me:hunter2 h", "http --user=me:[masked] h"),
        ("['-u', 'me:hunter2', 'h']", "['-u', 'me:[masked]', 'h']"),
        ("['t.py', '--api-key', 'a b', '-v']", "['t.py', '--api-key', '[masked]', '-v']"),
        ('["--hf-token","abc"]', '["--hf-token","[masked]"]'),
        (r'{"c": "[\"--hf-token\", \"abc\"]"}', r'{"c": "[\"--hf-token\", \"[masked]\"]"}'),
        ("['--api-key',\n 'abc',\n 'x']", "['--api-key',\n '[masked]',\n 'x']"),
        ("- --api-key\n- abc\n- x", "- --api-key\n- [masked]\n- x"),
        ("t.py --api-key \\\n  abc -v", "t.py --api-key \\\n  [masked] -v"),
        ("t.py --password 'a b' -v", "t.py --password '[masked]' -v"),
        ("--wandb-key 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567", "--wandb-key [masked]"),
        ("run_token: 5f0b0c3e-8a1d-4d0e-9f57-0f2a1b3c4d5e", "run_token: [masked]"),
        ("SESSION_COOKIE=5f0b0c3e8a1d4d0e9f57", "SESSION_COOKIE=[masked]"),
        ("GET /x?batch=2&token=abcd&n=1", "GET /x?batch=2&token=[masked]&n=1"),
        ("postgres://me:p@ss@db/x", "postgres://[masked]@db/x"),
        ("redis://:hunter2@db", "redis://[masked]@db"),
        ("X-Api-Key: abcd", "X-Api-Key: [masked]"),
        ("java -DAPI_KEY=abc Main", "java -DAPI_KEY=[masked] Main"),
        ("{'auth': {'token': 'abc123'}}", "{'auth': {'token': '[masked]'}}"),
        ("- name: API_KEY\n  value: hunter2", "- name: API_KEY\n  value: [masked]"),
        ('{"name": "API_KEY", "value": "x1"}', '{"name": "API_KEY", "value": "[masked]"}'),
        ('<add key="password" value="hunter2"/>', '<add key="password" value="[masked]"/>'),
        ("<password>hunter2</password>", "<password>[masked]</password>"),
        ("password: |\n  hunter2\n", "password: |\n  [masked]\n"),
        ('password = """hunter2"""', 'password = """[masked]"""'),
        ("setdefault('API_KEY', 'hunter2')", "setdefault('API_KEY', '[masked]')"),
        ('("--password", default="hunter2")', '("--password", default="[masked]")'),
        ("get(u, auth=('me', 'hunter2'))", "get(u, auth=('me', '[masked]'))"),
        ("openssl -passin pass:hunter2 -x", "openssl -passin pass:[masked] -x"),
        ("set -gx HF_TOKEN hunter2", "set -gx HF_TOKEN [masked]"),
        ("Authorization: Token hunter22", "Authorization: Token [masked]"),
        ("password%3Dhunter2&a", "password%3D[masked]&a"),
        ('{"auth": "bWU6aHVudGVyMg=="}', '{"auth": "[masked]"}'),
        (
            "['curl -u me:a1b2c3 h', 'curl --user me:a1b2c3 h', 'curl -ume:a1b2c3 h']",
            "['curl -u me:[masked] h', 'curl --user me:[masked] h', 'curl -ume:[masked] h']",
        ),
        (
            "x -pprofkit-secret-debbae8f69de0019 sshpass",
            "x -pprofkit-secret-debbae8f69de0019 sshpass",
        ),
        ("sk_live_" + "a1B2" * 6, MASK),
        ("gsk_" + "a1B2" * 9, MASK),
        ("https://hooks.slack.com/services/T0/B0/xyz", "https://hooks.slack.com/services/[masked]"),
    ],
)
def test_secrets_are_masked_and_what_is_around_them_stays(text, expected):
    assert masked(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "tokens_per_batch = 4096",
        'pad_token = "<|endoftext|>"',
        "tokenizer = AutoTokenizer.from_pretrained('meta-llama/Llama-2-7b-chat-hf')",
        "self.cls_token = nn.Parameter(torch.zeros(1, 1, width))",
        'password = os.environ["DB_PASSWORD"]',
        "password = getpass()",
        "password=${DB_PASSWORD}",
        "api_key=None",
        "secret_file = '/run/secrets/x'",
        "key = 'layers.0.attention.wq.weight'",
        "commit = 49003fc1a88fa64f23258b62640a7f7d1f0f4a2b",
        'model = "meta-llama/Llama-2-7b-chat-hf"',
        "git@github.com:me/project.git",
        "step 7: loss=2.7182818284590452 tokens=131072",
        "name=sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_segment_k_off",
        "https://example.org/path?batch=2",
        "uuid = GPU-5f0b0c3e-8a1d-4d0e-9f57-0f2a1b3c4d5e",
        "diff --git a/train.py b/train.py\nindex 4f2a9c1..77ab01f 100644",
        "t.py --max_new_tokens=20 --tokenizer=gpt2 --token-budget 512 --num-tokens 131072",
        "t.py --key-dim 64 --pad_token_id 50256 --sort_key name --auth-type none --auth none",
        "t.py --pad-token eos --mask_token=<mask> --key layer1.weight --token-dropout 0.1",
        "docker run --user 1000:1000 -u 0:0 --password-stdin registry.io/image",
        "['--tokenizer', 'gpt2', '--max_new_tokens', '20', '--n-keys', '8']",
        "password = self.settings.password",
        "secret = ', '.join(names)",
        "torchrun --rdzv-endpoint=localhost:29500 -u http://host:80/x",
        "rsync -u host:/data .",
        "the tokens: none were dropped; no password",
        "key=sm90_xmma_gemm_f32f32_tf32f32",
        "t.py --secretary bob",
        "token\tfrequency\nkey\tvalue_1\nmax_tokens\t131072",
        "attention.key.weight   [64, 64]   float32\naccess_token_dropout_layer1",
        "aten::key\t12.5ms\t3\n| pad_token | layer_1 |",
        '("key", "value_1"), ("password", "username"), ["pad_token", "eos_1"]',
        '{"name": "attention.key", "value": "layer_1"}\n- name: pad_token\n  value: eos_1',
        "<key>layer_1</key> cookie: a=1\ntokens: |\n  the 131072",
        "set -x TOKENIZERS_PARALLELISM false; t.py --pass-through x1 auth = (a, b)",
        "'--token-file', 'x_1.txt', --rdzv_id=abc123 whsec gsk_layers r8_max",
    ],
)
def test_what_people_write_every_day_stays(text):
    assert masked(text) == text


def test_values_of_the_environment_are_masked_wherever_they_stand():
    environment = {"MY_PASSWORD": "correct horse", "HOME": "/root", "HF_TOKEN": "a&b'cdef"}
    text = "horse correct horse /root, a&b'cdef, a%26b%27cdef"
    assert masked(text, environment) == "horse [masked] /root, [masked], [masked]"


def test_short_values_and_paths_are_no_secrets(tmp_path):
    environment = {"MY_PASSWORD": "root", "KEY": str(tmp_path), "HF_TOKEN_PATH": "some/place"}
    assert masked(f"root {tmp_path} some/place", environment) == f"root {tmp_path} some/place"


def test_the_password_of_an_address_in_the_environment_is_masked_elsewhere():
    assert masked("it is hunter2!", {"DATABASE_URL": "pg://me:hunter2@db"}) == "it is [masked]!"


def test_a_command_line_keeps_its_words_and_loses_the_value_of_a_secret_flag():
    masker = Masker({})
    words = ["train.py", "--api-key", "abc", "--batch", "2", "--token=xyz", "-v"]
    assert masker.document(words, "the command line") == [
        *("train.py", "--api-key", MASK, "--batch", "2", "--token=[masked]", "-v")
    ]
    assert masker.warnings() == ["what looks like a secret was masked in the command line"]
    assert NOTHING.document(["set", "db_password", "hunter2"]) == ["set", "db_password", MASK]


def test_a_record_of_name_and_value_is_masked():
    document = [{"name": "API_KEY", "value": "hunter"}, {"password": {"value": "hunter"}}]
    assert NOTHING.document(document, "it") == [
        {"name": "API_KEY", "value": MASK},
        {"password": {"value": MASK}},
    ]


def test_a_line_of_spaces_is_masked_in_time_that_its_length_allows():
    # With the square of it this would take minutes.
    text = "'token'" + " " * 200_000 + "x"
    assert masked(text) == text


@pytest.mark.parametrize("text", ["a\nPrivate-Lines: ", "-----BEGIN PRIVATE KEY-----", "://:@", ""])
def test_a_text_that_ends_where_a_secret_would_begin_is_read_to_its_end(text):
    assert masked(text) in (text, MASK)


@pytest.mark.parametrize("value", ["x" * 9000, "aB3/" * 3000])
def test_a_secret_of_any_length_is_masked_whole(value):
    for form in ("password={} y", "t.py --password {} y", "password: '{}' y"):
        assert masked(form.format(value)) == form.format(MASK)


def test_names_and_values_in_colors_are_found():
    assert (
        masked("\x1b[1mpassword\x1b[0m=\x1b[32mhunter2")
        == "\x1b[1mpassword\x1b[0m=\x1b[32m[masked]"
    )


def test_a_document_is_masked_in_depth_and_keeps_its_shape():
    document = {"a": ["password=hunter2", 2, None], "b": {"c": 0.5, "pgpass": "a", "db_pwd": "abc"}}
    assert NOTHING.document(document, "it") == {
        "a": ["password=[masked]", 2, None],
        "b": {"c": 0.5, "pgpass": "a", "db_pwd": MASK},
    }
    json.dumps(NOTHING.document(document, "it"))


def test_a_file_is_masked_in_place_and_its_other_bytes_stay(tmp_path):
    path = tmp_path / "capture.log"
    path.write_bytes(b"\xff\x00 step\npassword=hunter2\n\xfe")
    masker = Masker({})
    masker.file(path, "the log")
    assert path.read_bytes() == b"\xff\x00 step\npassword=[masked]\n\xfe"
    assert masker.warnings() == ["what looks like a secret was masked in the log"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_without_secrets_is_not_touched(tmp_path):
    path = tmp_path / "capture.log"
    path.write_text("step 1\n")
    before = path.stat()
    masker = Masker({})
    masker.file(path, "the log")
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino
    assert masker.warnings() == []


def test_random_secrets_of_any_form_do_not_survive_in_the_environment():
    for make in (secrets.token_hex, secrets.token_urlsafe):
        secret = make(12)
        assert secret not in masked(f"x {secret} y", {"ANY_TOKEN": secret})


def test_a_known_secret_that_was_quoted_for_a_shell_is_masked_as_programs_see_it():
    masker = Masker({}, known=forms(["it'\"'\"'s hunter2"]))
    assert masker.text("['t.py', \"it's hunter2\"] it's hunter2") == (
        "['t.py', \"[masked]\"] [masked]"
    )


def test_random_words_of_a_secret_with_quotes_are_masked_however_it_is_quoted():
    masker = Masker({}, known=forms(["it's the hunter2 of 2024"]))
    deep = json.dumps(repr(json.dumps(shlex.quote("it's the hunter2 of 2024"))))
    assert "hunter2" in deep
    masked = masker.text(deep)
    assert "hunter2" not in masked
    assert "the [masked] of 2024" in masked
