"""Ways in which people write secrets, and what only looks like them; see `test_secret_forms`.

A "~" keeps searches for secrets from finding these, and is left out.
"""


def lines_of(texts: str) -> list[str]:
    """Return each text of a table as it is meant."""
    return [line.replace("~", "").replace("\\n", "\n") for line in texts.strip().splitlines()]


SECRETS = r"""
mysql -u root -phunter2 db
b'Host: x\rAuthorization: token hunter2\r'
"Host: x\rtoken: hunter2\rLength: 4"
MYPASSWORD='it'"'"'s hunter2'
mysql --password='it'\''s hunter2' db
1 validation error for S\napi_key\n  Input should be an int [type=int_type, input_value='hunter2']
mysql '--password=correct horse hunter2' db
train.py "--auth.password=correct horse hunter2" --lr 1
docker run -e 'PASSPHRASE=two words hunter2' img
bash -c "t.py --login-password 'it'\"'\"'s hunter2' --lr 1"
t.py '--pass-phrase=three words hunter2' --pass-code hunter2
Cookie: a=b; csrftoken=hunter2
signing_key GJjGqnYlzsxRuxIIpirl
--wandb-key GJjGqnYlzsxRuxIIpirl
mysql -uroot -phunter2
mysqldump --password=hunter2 db
mysqladmin -u root -p'hunter2' ping
mariadb -h db -u me -phunter2
docker login -u me -p hunter2 registry.io
docker login --username me --password hunter2
podman login -p hunter2 quay.io
helm registry login -u me -p hunter2 host
redis-cli -h host -a hunter2 ping
redis-cli --pass hunter2
redis-cli -u redis://me:hunter2@h:6379
sshpass -p hunter2 ssh me@h
sshpass -phunter2 ssh me@h
curl -u me:hunter2 https://h
curl --user me:hunter2 https://h
curl -ume:hunter2 https://h
curl -H "Authorization: Bearer hunter2" https://h
curl -H "Authorization: Basic bWU6aHVudGVyMg==" https://h
curl -H 'X-Auth-Token: hunter2' https://h
curl --oauth2-bearer hunter2 https://h
curl --proxy-user me:hunter2 https://h
curl -x http://me:hunter2@proxy:3128 https://h
curl 'https://h/v1?api_key=hunter2&x=1'
curl -d 'grant_type=password&password=hunter2' https://h
curl -d '{"password": "hunter2"}' https://h
curl -b 'session=hunter2' https://h
wget --user=me --password=hunter2 https://h
wget --http-password=hunter2 https://h
wget --header="Authorization: token hunter2" https://h
PGPASSWORD=hunter2 psql -h db
psql "host=db user=me password=hunter2 dbname=x"
psql postgresql://me:hunter2@db/x
Server=db;Database=x;User Id=me;Password=hunter2;
Server=db;Uid=me;Pwd=hunter2;
DefaultEndpointsProtocol=https;AccountName=x;AccountKey=aHVudGVyMmh1bnRlcjI=;EndpointSuffix=core.windows.net
Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=aHVudGVyMmh1bnRlcjI=
jdbc:postgresql://db/x?user=me&password=hunter2
jdbc:oracle:thin:me/hunter2@db:1521/x
sqlplus me/hunter2@db
mongo -u me -p hunter2 --authenticationDatabase admin
mongosh mongodb+srv://me:hunter2@h/x
mongodump --username me --password hunter2
sqlcmd -S h -U me -P hunter2
PGPASSFILE=x PGPASSWORD='hunter2' pg_dump
influx -username me -password hunter2
clickhouse-client --user me --password hunter2
cqlsh -u me -p hunter2 host
ldapsearch -x -D cn=me -w hunter2 -b dc=x
smbclient //h/x -U me%hunter2
mount -t cifs //h/x /m -o username=me,password=hunter2
net use X: \\h\x hunter2 /user:me
rsync --password-file=<(echo hunter2) a b
lftp -u me,hunter2 ftp.h
ftp://me:hunter2@h/x
zip -P hunter2 a.zip a
unzip -P hunter2 a.zip
7z x -phunter2 a.7z
gpg --batch --passphrase hunter2 -d x
openssl enc -aes-256-cbc -k hunter2 -in x
openssl rsa -passin pass:hunter2 -in x
keytool -storepass hunter2 -list
keytool -keypass hunter2 -list
htpasswd -b file me hunter2
echo hunter2 | sudo -S ls
echo "hunter2" | docker login --password-stdin
echo hunter2 | passwd --stdin me
chpasswd <<< me:hunter2
git clone https://me:hunter2@github.com/x/y
git clone https://oauth2:hunter2@gitlab.com/x/y
git -c http.extraHeader="Authorization: Bearer hunter2" pull
gh auth login --with-token <<< hunter2
huggingface-cli login --token hunter2
hf auth login --token hunter2
wandb login hunter2hunter2hunter2hunter2hunter2a1b2
wandb login --relogin 0123456789abcdef0123456789abcdef01234567
wandb.login(key="0123456789abcdef0123456789abcdef01234567")
WANDB_API_KEY=hunter2 python t.py
export HF_TOKEN=hunter2
export HUGGING_FACE_HUB_TOKEN="hunter2"
OPENAI_API_KEY=hunter2
AWS_SECRET_ACCESS_KEY=hunter2/abc
aws_secret_access_key = hunter2/abc
aws configure set aws_secret_access_key hunter2
AWS_SESSION_TOKEN=hunter2
az login -u me -p hunter2
az login --service-principal -u id -p hunter2 --tenant t
gcloud auth activate-service-account --key-file=<(echo hunter2)
kubectl create secret generic x --from-literal=password=hunter2
kubectl --token=hunter2 get pods
oc login -u me -p hunter2
vault login hunter2hunter2
vault kv put secret/x password=hunter2
consul -token=hunter2
nomad -token hunter2
ansible-playbook -e ansible_password=hunter2
ansible -e "ansible_become_pass=hunter2"
twine upload -u __token__ -p hunter2 dist/x
npm config set //registry.npmjs.org/:_authToken hunter2
//registry.npmjs.org/:_authToken=hunter2
pip install --index-url https://me:hunter2@h/simple x
pip config set global.index-url https://me:hunter2@h/simple
snowsql -a x -u me --private-key-passphrase hunter2
mosquitto_pub -u me -P hunter2 -t x
rclone --sftp-pass hunter2
restic -r x --password-command 'echo hunter2'
borg init --passphrase hunter2
ipmitool -H h -U me -P hunter2 power status
xfreerdp /u:me /p:hunter2 /v:h
rdesktop -u me -p hunter2 h
net rpc -U me%hunter2
jupyter notebook --NotebookApp.token=hunter2
http://localhost:8888/?token=hunter2
http://localhost:8888/lab?token=hunter2
https://h/x?sig=hunter2hunter2abc1&se=2026
https://h/x?X-Amz-Signature=0123456789abcdef0123456789abcdef
https://h/x?access_token=hunter2
https://h/cb#access_token=hunter2&state=1
the password is hunter2
The password for me is hunter2.
Your password: hunter2
password hunter2
using password 'hunter2'
My API key is "hunter2"
token is hunter2abc123
passwd: hunter2
pw=hunter2
PW: hunter2
pwd=hunter2
passphrase: hunter2
"password": "hunter2"
'password': 'hunter2'
{"password":"hunter2"}
{"auth":{"user":"me","pass":"hunter2"}}
{"user": "me", "pwd": "hunter2"}
"auths": {"h": {"auth": "bWU6aHVudGVyMg=="}}
password: hunter2
password: "hunter2"
password: 'hunter2'
  db_password: hunter2
pass: hunter2
stringData:\n  password: hunter2
[db]\npassword = hunter2
machine h\nlogin me\npassword hunter2
machine h login me password hunter2
<password>hunter2</password>
<password type="plain">hunter2</password>
<user name="me" password="hunter2"/>
<property name="password" value="hunter2"/>
password='hunter2'
connect(user="me", password="hunter2", host="h")
connect("me", password=b"hunter2")
os.environ["HF_TOKEN"] = "hunter2"
os.environ.setdefault("HF_TOKEN", "hunter2")
login(token="hunter2")
secret = "hunter2"
SECRET_KEY = 'hunter2'
client_secret=hunter2
--client-secret hunter2
--password hunter2
--password=hunter2
-password hunter2
--pass hunter2
--passwd hunter2
--pwd hunter2
--api-key hunter2
--apikey=hunter2
--token hunter2
--auth-token hunter2
--hf~_token hunter2
--hf-token=hunter2
+api_key=hunter2
model.api_key=hunter2
++trainer.logger.api_key=hunter2
env.HF_TOKEN=hunter2
launcher.env.HF_TOKEN=hunter2
'+launcher.env={HF_TOKEN:hunter2}'
['--password', 'hunter2']
["mysql", "-phunter2"]
["docker", "login", "-p", "hunter2"]
['redis-cli', '-a', 'hunter2']
["curl", "-u", "me:hunter2"]
Authorization: Bearer hunter2
authorization: bearer hunter2
"Authorization": "Bearer hunter2"
{'Authorization': 'Bearer hunter2'}
headers = {"Authorization": f"Token hunter2"}
Authorization: ApiKey hunter2
Authorization: hunter2
Proxy-Authorization: Basic bWU6aHVudGVyMg==
Cookie: sessionid=hunter2
Set-Cookie: session=hunter2; Path=/
X-API-Key: hunter2
X-Auth-Token: hunter2
Private-Token: hunter2
api-key: hunter2
Ocp-Apim-Subscription-Key: 0123456789abcdef0123456789abcdef
AKI~AIOSFODNN7EXAMPLE
ASI~AIOSFODNN7EXAMPLE
ghp~_0123456789abcdefghijABCDEFGHIJ012345
gho~_0123456789abcdefghijABCDEFGHIJ012345
ghs~_0123456789abcdefghijABCDEFGHIJ012345
github_pat~_11ABCDEFG0abcdefghijkl_0123456789
glpat~-abcdefghij0123456789
xoxb~-123456789012-abcdefABCDEF
xoxp~-123456789012-123456789012
hf~_abcdefghijABCDEFGHIJklmnopqrstuvwx
sk~-abcdefghij0123456789ABCDEFGHIJ
sk~-proj-abcdefghij0123456789ABCDEFGHIJ
sk~-ant-api03-abcdefghij0123456789
local~-0123456789abcdef0123456789abcdef01234567
wandb_v1~_abcdefghij0123456789ABCDEFGHIJ
AIz~aSyA0123456789abcdefghijABCDEFGHIJ012
ya29~.a0AfB_byC0123456789abcdef
ey~JhbGciOiJIUzI1NiJ9.ey~JzdWIiOiIxIn0.SflKxwRJSMeKKF2QT4
npm~_0123456789abcdefghijABCDEFGHIJ012345
pypi~-AgEIcHlwaS5vcmcCJDAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVm
dckr_pat~_0123456789abcdefghij
SG~.0123456789abcdef.0123456789abcdefghij
sk_live~_0123456789abcdefghij
rk_live~_0123456789abcdefghij
gsk~_0123456789abcdefghijABCD
nvapi~-0123456789abcdefghijABCD
hvs~.CAESIJ0123456789abcdefghijABCD
dap~i0123456789abcdef0123456789abcdef
https://hooks~.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX
https://discord.com/api/webhooks~/123456789012345678/abcDEF_012-xyz
https://api.telegram.org/bot123456789:A~AE-abcdefghij0123456789ABCDEFGHIJ0/sendMessage
123456789:A~AE-abcdefghij0123456789ABCDEFGHIJ0
-----BEGIN~ RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----
-----BEGIN~ OPENSSH PRIVATE KEY-----\nhunter2\n-----END OPENSSH PRIVATE KEY-----
-----BEGIN~ PGP PRIVATE KEY BLOCK-----\nhunter2\n-----END PGP PRIVATE KEY BLOCK-----
PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 1\nhunter2aaaa\nPrivate-MAC: 0123456789abcdef0123
AGE~-SECRET-KEY-1QYQSZQGPQYQSZQGPQYQSZQGPQYQSZQGP
set HF_TOKEN=hunter2
$env:HF_TOKEN = "hunter2"
setenv HF_TOKEN hunter2
ENV HF_TOKEN hunter2
ARG HF_TOKEN=hunter2
docker run -e HF_TOKEN=hunter2 image
docker run --env=HF_TOKEN=hunter2 image
docker build --build-arg HF_TOKEN=hunter2 .
sbatch --export=ALL,HF_TOKEN=hunter2 x.sh
srun --export=HF_TOKEN=hunter2 x.sh
export TF_VAR_db_password=hunter2
terraform apply -var="db_password=hunter2"
java -Djavax.net.ssl.keyStorePassword=hunter2 X
spark-submit --conf spark.hadoop.fs.s3a.secret.key=hunter2
s3a://AKI~A0:hunter2@bucket/x
mlflow --backend-store-uri mysql://me:hunter2@h/x
NEPTUNE_API_TOKEN=hunter2
COMET_API_KEY=hunter2
KAGGLE_KEY=hunter2abc1234
{"username":"me","key":"0123456789abcdef0123456789abcdef"}
MASTER_KEY=hunter2
CREATE USER me IDENTIFIED BY 'hunter2'
SecretStr is off: password=SecretStr('hunter2')
rclone config create r s3 secret_access_key hunter2
mc alias set minio http://h:9000 minio hunter2
expect -c 'send "hunter2\r"'
SET PASSWORD FOR me = 'hunter2'
GRANT ALL ON x TO me IDENTIFIED BY "hunter2"
password=Secret("hunter2")
api_key=SecretStr(value='hunter2')
vault kv put x db_password hunter2
mc config host add m http://h:9000 minio hunter2
send -- "hunter2\r"
--api-key-json='{"k": "hunter2"}'
HF_TOKEN -> hunter2
HF_TOKEN => hunter2
-e HF_TOKEN hunter2
password%3D%22hunter2%22
{\\"password\\": \\"hunter2\\"}
smtplib.login('me', 'hunter2')
curl -sSLu me:hunter2 https://h
http -a me:hunter2 h
wandb login --relogin --host=https://wandb.corp.io 0123456789abcdef0123456789abcdef01234567
https://acc.blob.core.windows.net/c/b?sv=2022-11-02&sr=b&sig=hunter2%2F123%3D
ssh-keygen -t ed25519 -N 'hunter2 one' -f k
AuthenticationError: Incorrect API key provided: hunter2
git config --global gitlab.token hunter2_1
aws configure set aws_secret_access_key hunter2/abc/DEF_1
kubectl create secret generic db --from-literal=pw=hunter2
Namespace(lr=0.1, api_key='hunter2', out='x')
Config(db=Db(host='h', password='hunter2'))
environ({'HOME': '/root', 'WANDB_API_KEY': 'hunter2'})
HF_TOKEN: str = 'hunter2'
"""

HARMLESS = r"""
"tokens=512 words" 'key=name of the column' "sort_key=the first of both"
state_dict key = TransformerEncoderLayerNormFinal
--sort-key cumulativeSelfCudaTimeTotal
C:\new\token\path C:\temp\key.txt
t.py --max_new_tokens=20
t.py --tokenizer=gpt2
t.py --token-budget 512
t.py --pad_token_id 50256
token='b2'
re.sub('token', 'word_1')
re.sub('token', 'word_1', text)
tokens = ['a', 'b']
token = tokens[i]
token = 'the'
for token in text.split():
token_ids: [1, 2, 3]
next_token = 'b2'
{"token": "b2"}
{"token": "Ġhello", "id": 5}
key='layer_1'
key = 'layers.0.weight'
state['key_1'] = x
d.get('key', 'value_1')
{"key": "value_1"}
('key', 'value_1')
sorted(x, key=len)
sorted(x, key=lambda r: r.name)
--key-dim 64
--num-key-value-heads 8
--sort-key name
--tokenizer_name_or_path meta-llama/Llama-3.2-1B
--use_auth_token
--use_auth_token=True
--trust-remote-code
--passes 3
--pass-rate 0.5
--bypass=1
--compass north
--password-file /run/x
--secret-name my-secret
python -u train.py
python -u train.py:main
docker run -p 8080:80 image
docker run -u 1000:1000 image
ssh -p 2222 me@h
scp -P 2222 a h:
mkdir -p out/run1
cp -p a b
nsys profile -p x
make -p target1
tar -pxf a.tar
patch -p1 < x
gcc -pthread -pipe x.c
mysql -h db -P 3306 -u root
mysql -u root -p
mysql --protocol=tcp -u root db1
redis-cli -h host -p 6379 -n 1
pytest -p no:cacheprovider
py.test -p xdist -a x
ps -p 12345
kill -9 12345
grep -a word1 file
ls -a dir1
git commit -a -m fix1
git log -p file1
nmap -p 1-1000 host1
srun -p gpu2 -A acct1 x
sbatch -p gpu2 x.sh
rsync -a src1/ dst1/
perl -pe s/a/b1/
sed -i s/token/word1/ file
accelerate launch --multi_gpu -m mod1
torchrun --nproc-per-node=2 t.py
curl -u https://h
curl https://h/x?page=2
https://example.org/a/b?token_count=3
https://huggingface.co/meta-llama/Llama-2-7b-chat-hf
ssh://git@github.com/me/x.git
http://localhost:6006/
git@github.com:me/x.git
tcp://127.0.0.1:29500
file:///home/me/x1
s3://bucket/key1/part-0001
the tokens are 131072
the token is masked
the password is wrong
the password is not set
password is required
a password for x1 is required
wrong password for user1
token is invalid
the key is missing
key is layer_1
the key is 'layers.0'
one pass is 12 ms
forward pass: 12.5ms
backward pass: step_2
pass: 2 of 3
pass 1: 12.5 ms
passed: 12
first_pass=ok1
pwd=/home/me/x1
PWD=/home/me/x1
OLDPWD=/home/me/x1
XDG_SESSION_ID=c1
SSH_AUTH_SOCK=/tmp/ssh-x1/agent.1
DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus
TOKENIZERS_PARALLELISM=false
author=me1
authors: Bob1 and Alice2
pattern = 'a1b2'
path=/a/b/c1
patience=10
compat=v2x1
keyboard=us1
monkey = 'george1'
turkey: istanbul1
signal: SIGTERM9
signature: (Tensor self, int dim) -> Tensor
sigma=0.5
significant=p05x
session: 2
sessions per day: 12a
secretary: bob1
cookiecutter=x1y2
attention.key.weight [64, 64]
key_padding_mask=mask_1
past_key_values=cache_1
KeyError: 'layer_1'
KeyError: 'token_1'
aten::_scaled_dot_product_attention_1
kernel=sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n
commit 49003fc1a88fa64f23258b62640a7f7d1f0f4a2b
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
md5=9e107d9d372bb6826bd81d3542a419d6
id: 5f0b0c3e-8a1d-4d0e-9f57-0f2a1b3c4d5e
checkpoint-0123456789/model-00001-of-00002.safetensors
run-20261124_223000-a1b2c3d4
wandb: Run data is saved locally in /x/wandb/run-20261124_223000-a1b2c3d4
wandb: View run at https://wandb.ai/me/project1/runs/a1b2c3d4
loss=2.7182818284590452 tokens=131072
lr=3e-4 betas=(0.9, 0.95)
dataset=wikitext-103-raw-v1
model=Qwen2.5-7B-Instruct
dtype: torch.bfloat16
conf.key1=value2
+model.key=value_1
special_tokens_map.json: {'pad_token': '<pad>', 'eos_token': '</s>'}
bos_token = '<s>'
image_token = 'img_1'
token_type = 'type_1'
tokens_per_second: 12345.6
tok/s 12k
Tokenizer(name='b1', pad='p2')
auth=None
auth_type=oauth2
--auth none
{"user": "me", "host": "db1"}
Server=db;Database=x1;Integrated Security=true;
CUDA_VISIBLE_DEVICES=0,1
NCCL_DEBUG=INFO
LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu
OMP_NUM_THREADS=1
PYTHONHASHSEED=0
-----BEGIN CERTIFICATE-----
-----BEGIN PUBLIC KEY-----
ssh-keygen -t ed25519 -f key1
export KEY_DIM=64
basic block_1 of resnet50x
class BasicAuth1:
bearer of bad news1
def login(self, user1):
login shell: bash5
--login shell1
tokens per second: 123456
--seed 1234567890
model.layers.0.attn.key.weight
key_states = key_proj(x)
num_key_value_heads=8
--n_kv_heads 8
/data/secrets_dataset/train.jsonl
/home/me/passwords.txt.d/readme
pass 3 of 10
tokenizer.json: 100%|####| 1.3M/1.3M
author=Jane
authority=x.com
key_padding_mask=None
is_causal=True, secret_sauce=False
signature = (int, float) -> Tensor
sig=3 exit
uuid GPU-5f1c7a9e-0b3d-4c6f-8a2e-1d0b9c7f6a5e
session=3 rank=0
step=10 token=the
turkey: 4
rng_key=PRNGKey(0)
jax.random.PRNGKey(42)
Error: password must not be empty
no API key was given; run `wandb login`
token limit reached: 2048
API rate: 20 requests
unexpected token 'else' at line 3
secretary=3
bearer of news
"""
