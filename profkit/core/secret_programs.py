"""How programs are given a secret by a flag, or a place, whose name does not say that it is one."""

_QUOTE = r"\\?[\"']"
_SPACE = rf"(?:(?:{_QUOTE})?[\s,]+(?:{_QUOTE})?)"
_WORDS = r"[^\n|;&]{0,120}?"

# Of each group of programs what stands before the secret; "~" is what is between two words.
_BEFORE_SECRET = (
    # After a space comes the name of a database, and the password is asked for.
    r"(?:mysql\w*|mariadb[\w-]*|7z[ar]?)~(?:...~)??-p['\"]?(?=[^\s'\"])",
    r"sshpass~-p~?",
    r"(?:docker|podman|nerdctl|buildah|skopeo|crane|helm~registry|oras|oc|az|az~acr)~login~(?:...~)??-p~",
    r"(?:mongo\w*|cqlsh|twine~upload|rdesktop)~(?:...~)??-p~",
    r"redis-cli~(?:...~)??(?:-a|--pass)~",
    r"(?:sqlcmd|bcp|ipmitool|mosquitto_\w+|zip|unzip)~(?:...~)??-P~",
    r"ssh-keygen~(?:...~)??-[NP]~",
    r"mc~(?:alias~set|config~host~add)~\S+~\S+~\S+~",
    # As `expect` types it; a command would have a space.
    r"send~(?:--~)?(?=[^\s'\"\\]+\\{1,2}[rn]['\"])",
    r"https?~(?:...~)??-a~[^\s:]{1,80}:",
    r"ldap\w+~(?:...~)??-w~",
    r"openssl~enc~(?:...~)??-[kK]~",
    r"(?:xfreerdp\d?|wfreerdp)~(?:...~)??/p:",
    r"(?:smbclient|net~rpc)~(?:...~)??-U~[^\s%]{1,80}%",
    r"lftp~(?:...~)??-u~[^\s,]{1,80},",
    r"curl~(?:...~)??(?:-\w{0,9}u~?[^\s:\"'/]{1,80}:|(?:-b|--cookie)~[\w.-]{1,80}=)",
    r"(?:sqlplus~(?:...~)??|jdbc:oracle:thin:)[\w.-]{1,80}/(?=[^\s@]+@)",
    r"htpasswd~-\w*b\w*~\S{1,200}~\S{1,80}~",
    r"net~use~\S{1,80}~\\\\\S{1,80}~(?=\S+~/user:)",
    r"(?:wandb|vault)~login~(?:...~)??(?=[\w.-]*\d)(?=[\w.-]{12,}(?![\w:/]))",
    r"chpasswd~<<<~[^\s:]{1,80}:",
    r"(?:-stdin|--with-token)\s*<<<~",
    r"echo~(?=[^|\n]{1,200}\|[^|\n]{0,200}(?:sudo -S|stdin|--with-token))",
    r"--?[\w-]{0,40}(?:pass\w{0,9}|key|token)-(?:file|command)[= ]['\"]?(?:<\()?echo ",
)
OF_PROGRAMS = "(?<![\\w.-])(?:{})".format(
    "|".join(_BEFORE_SECRET).replace("...", _WORDS).replace("~", _SPACE)
)
"""A regular expression of what stands right before a secret."""

HINTS_OF_PROGRAMS = (
    *("mysql", "mariadb", "7z", "mongo", "cqlsh", "twine", "desktop", "redis", "sqlcmd", "bcp"),
    *("ipmi", "mosquitto", "zip ", "zip'", 'zip"', "ldap", "openssl", "rdp", "smbclient", "lftp"),
    *(
        "curl",
        "http",
        "ssh-keygen",
        "alias",
        "send",
        "identified",
        "sqlplus",
        "oracle",
        "net ",
        "stdin",
        "sudo",
    ),
)
"""What a line with one of these programs has in it, beside words such as "login"."""
