"""Changes of a trace that keep the failure the same, by language (AUTH-10)."""

import re
from collections.abc import Callable

Variation = Callable[[str], str]


def _sub(pattern: str, replacement: str, count: int = 0) -> Variation:
    return lambda text: re.sub(pattern, replacement, text, count=count, flags=re.MULTILINE)


def _all(*variations: Variation) -> Variation:
    def apply(text: str) -> str:
        for variation in variations:
            text = variation(text)
        return text

    return apply


COMMON: dict[str, Variation] = {
    "line_ends_of_windows": lambda text: text.replace("\n", "\r\n"),
    "line_ends_of_old_macs": lambda text: text.replace("\n", "\r"),
    "blanks_around": lambda text: f"\n\n  \t{text}  \n\n",
    "blanks_behind_every_line": _sub(r"$", "  "),
    "no_last_line_end": str.rstrip,
}


def _unfolded(text: str) -> str:
    """Each cause with the frames that it shares with the enclosing error."""
    printed: list[str] = []
    around: list[str] = []
    frames: list[str] = []
    for line in text.splitlines():
        if line.startswith("Caused by"):
            around, frames = frames, []
        if match := re.fullmatch(r"\t\.\.\. (\d+) more", line):
            printed.extend(around[-int(match[1]) :])
            frames = frames + around[-int(match[1]) :]
            continue
        if line.startswith("\tat "):
            frames.append(line)
        printed.append(line)
    return "\n".join(printed) + "\n"


def _folded(text: str) -> str:
    """Each cause without the frames that it shares with the enclosing error, as the JVM prints it."""
    first, *causes = text.rstrip().split("\nCaused by: ")
    printed = [first]
    around = [line for line in first.splitlines() if line.startswith("\tat ")]
    for cause in causes:
        frames = [line for line in cause.splitlines() if line.startswith("\tat ")]
        shared = 0
        while shared < min(len(frames), len(around)) and frames[-1 - shared] == around[-1 - shared]:
            shared += 1
        kept = cause.splitlines()[: len(cause.splitlines()) - shared]
        printed.append("\n".join([*kept, f"\t... {shared} more"]))
        around = frames
    return "\nCaused by: ".join(printed)


def _with_frames(variation: Variation) -> Variation:
    """A variation that adds or removes frames, which may be folded ones."""

    def apply(text: str) -> str:
        return text if variation(text) == text else _folded(variation(_unfolded(text)))

    return apply


def _root_cause_first(text: str) -> str:
    first, *causes = text.strip().split("\nCaused by: ")
    if "Suppressed" in text or not causes or len(text) > 7_950:
        return text
    return "\nWrapped by: ".join([*reversed(causes), first])


def _another_filter(text: str) -> str:
    """One more filter in the chain, among the last frames of the outermost error."""
    at = "\tat org.apache.catalina.core.ApplicationFilterChain.internalDoFilter("
    filters = (
        "\tat com.example.web.LocaleFilter.doFilterInternal(LocaleFilter.java:19)\n"
        "\tat org.springframework.web.filter.OncePerRequestFilter.doFilter(OncePerRequestFilter.java:116)\n"
    )
    return text.replace(at, filters + at)


_SUPPRESSED = (
    "\tSuppressed: java.io.IOException: closing\n\t\tat com.example.io.Pipe.close(Pipe.java:9)\n\t\t... 4 more\n"
    "\tCaused by: java.net.SocketException: Socket closed\n\t\tat com.example.io.Wire.end(Wire.java:3)\n"
)


def _suppressed(text: str) -> str:
    head, caused, tail = text.rstrip().partition("\nCaused by: ")
    return f"{head}\n{_SUPPRESSED}{caused.lstrip()}{tail}"


JVM: dict[str, Variation] = {
    "moved_lines": _sub(r"\.(java|kt):\d+\)", r".\1:7)"),
    "lines_of_more_digits": _sub(r"\.(java|kt):(\d+)\)", r".\1:1\g<2>)"),
    "other_messages": _sub(r"^((?:Caused by: )?[\w.$]+): .*$", r"\1: no, 4711 times 'alice' (0x7f12) at noon"),
    "message_of_many_lines": _sub(r"^([\w.$]+: )", r"\1first\nsecond: of bob\n\n  third ", count=1),
    "no_messages": _sub(r"^((?:Caused by: )?[\w.$]+): .*$", r"\1"),
    "in_a_thread": lambda text: 'Exception in thread "http-nio-8080-exec-7" ' + text,
    "below_a_line_of_the_log": lambda text: "2026-01-23 11:58:03 WARN [exec-7] login failed for bob\n" + text,
    "no_first_line": lambda text: text.partition("\n")[2],
    "indented_by_blanks": lambda text: text.replace("\t", "    "),
    "not_indented": lambda text: text if "Suppressed" in text else _sub(r"^\s+", "")(text),
    "other_lambdas": _sub(r"lambda\$(\w+)\$\d+", r"lambda$\1$17"),
    "classes_of_lambdas": _with_frames(
        _sub(
            r"^(\tat com\.example\.[\w.]+)(\.lambda\$.*)$",
            r"\1\2" + "\n" + r"\1$$Lambda$14/0x0000000800c03208.apply(Unknown Source)",
        )
    ),
    "classes_of_lambdas_since_21": _with_frames(
        _sub(
            r"^(\tat com\.example\.[\w.]+)(\.lambda\$.*)$",
            r"\1\2" + "\n" + r"\1$$Lambda/0x00007f3a5c0f1a38.apply(Unknown Source)",
        )
    ),
    "other_anonymous_classes": _sub(r"\$\d+\.(?=\w+\()", "$12."),
    "other_proxies": _all(
        _sub(r"jdk\.proxy\d/jdk\.proxy\d\.\$Proxy\d+", "jdk.proxy9/jdk.proxy9.$Proxy7"),
        _sub(r"\$\$SpringCGLIB\$\$\d", "$$SpringCGLIB$$5"),
        _sub(r"CGLIB\$\$[0-9a-f]{8}", "CGLIB$$00c0ffee"),
    ),
    "proxies_of_jdk_8": _sub(r"jdk\.proxy\d/jdk\.proxy\d\.\$Proxy\d+", "com.sun.proxy.$Proxy7"),
    "no_proxies": _with_frames(_sub(r"^\tat \S+\(<generated>\)\n", "")),
    "proxies_of_other_libraries": lambda text: text.replace("$$SpringCGLIB$$0", "$HibernateProxy$k3jD9aZ1").replace(
        "$$SpringCGLIB$$1", "_$$_javassist_12"
    ),
    "reflection_of_jdk_8": _with_frames(
        _all(
            _sub(
                r"^\tat java\.base/jdk\.internal\.reflect\.DirectMethodHandleAccessor.*$",
                "\tat sun.reflect.GeneratedMethodAccessor123.invoke(Unknown Source)\n"
                "\tat sun.reflect.DelegatingMethodAccessorImpl.invoke(DelegatingMethodAccessorImpl.java:43)",
            ),
            _sub(r"\bjava\.(?:base|naming)/", ""),
        )
    ),
    "versions_of_modules": _all(_sub(r"\bjava\.base/", "java.base@17.0.2/"), _sub(r"\bat com\.", "at app//com.")),
    "jars_of_frames": _sub(r"^(\tat (?:org|com)\..*)$", r"\1 ~[spring-web-6.0.1.jar:6.0.1]"),
    "no_jars_of_frames": _sub(r"^(\tat .*)$", r"\1 [na:na]"),
    "printed_whole": _unfolded,
    "folded_by_logback": _sub(r"(\.\.\. \d+) more", r"\1 common frames omitted"),
    "root_cause_first": _root_cause_first,
    "something_suppressed": _suppressed,
    "nothing_suppressed": lambda text: re.sub(
        r"\tSuppressed:.*?(?=^Caused by)", "", text, flags=re.DOTALL | re.MULTILINE
    ),
    "another_filter": _with_frames(_another_filter),
    "deeper_recursion": _with_frames(_sub(r"^(\tat com\.example\..*\n)", r"\1\1\1\1")),
}


def _windows_of_python(text: str) -> str:
    text = re.sub(r"/(?:opt/venv|srv/shop/venv|home/deploy/portal/\.venv)/lib/", r"/Python313/Lib/", text)
    text = re.sub(r"/Python313/Lib/python[\d.]+/", "/Python313/Lib/", text)
    text = re.sub(r"/usr/local/lib/python[\d.]+/", "/Python313/Lib/", text)
    text = re.sub(r'"/(?:app|srv|home/deploy)/', '"/Users/bob/app/', text)
    return re.sub(r'(?<=File ")[^"]*', lambda match: "C:" + match[0].replace("/", "\\"), text)


_SENTRY = (
    '  File "/opt/venv/lib/python3.12/site-packages/sentry_sdk/integrations/asgi.py", line 157, in _run_asgi3\n'
    "    return await self._run_app(scope, receive, send)\n"
)

PYTHON: dict[str, Variation] = {
    "moved_lines": _sub(r"line \d+,", "line 7,"),
    "lines_of_more_digits": _sub(r"line (\d+),", r"line 1\1,"),
    "other_messages": _sub(r"^((?: *\| )?[\w.]+): .*$", r"\1: no, 4711 times 'alice' <Token object at 0x7f12>"),
    "message_of_many_lines": _sub(r"^((?: *\| )?)([\w.]+: .*)$", r"\1\2\n\1  second line: of bob\n\1third"),
    "no_carets": _sub(r"^ *(?:\| +)?\^+\n", ""),
    "no_sources": lambda text: re.sub(r"(?m)^((?: *\| )?  File .*\n)(?:(?: *\| )?    (?! *[|+]).*\n)+", r"\1", text),
    "not_indented": lambda text: text if " | " in text else re.sub(r"(?m)^ +", "", text),
    "indented_by_tabs": lambda text: re.sub(r"(?m)^((?: *\| )?)  (?=\S|  )", "\\1\t", text),
    "on_lambda": _sub(r'"/(?:app|srv|home/deploy)/', '"/var/task/'),
    "in_a_home": _sub(r'"/(?:app|srv|home/deploy)/', '"/home/alice/work/'),
    "in_a_folder_of_its_own": _sub(r'"/(?:app|srv|home/deploy)/', '"/usr/src/app/'),
    "packages_of_debian": _sub(r"/\S+/lib/python[\d.]+/site-packages/", "/usr/lib/python3/dist-packages/"),
    "packages_of_lambda": _sub(r"/\S+/lib/python[\d.]+/site-packages/", "/opt/python/"),
    "another_python": _sub(r"/usr/local/lib/python3.12/", "/usr/lib/python3.11/"),
    "on_windows": _windows_of_python,
    "watched_by_sentry": _sub(r"^(Traceback .*\n)", r"\1" + _SENTRY),
    "comprehensions_before_312": _sub(
        r'^(  File "([^"]*claims.py)", line \d+, in )mapped\n', r"\1mapped\n    x\n\1<dictcomp>\n"
    ),
    "deeper_recursion": lambda text: re.sub(r"977|974", "12", text),
    "shallow_recursion": _sub(r"^  \[Previous line repeated \d+ more times\]\n", ""),
    "members_swapped": lambda text: re.sub(
        r"(?s)(\+-\+-+ 1 -+\n)(.*?)(    \+-+ 2 -+\n)(.*?)(    \+-{20,})", r"\1\4\3\2\5", text
    ),
    "a_member_twice": lambda text: re.sub(r"(?s)(    \+-+) 2 (-+\n)(.*?)(    \+-{20,})", r"\1 2 \2\3\1 3 \2\3\4", text),
}

_NPM = r"node_modules/(?!\.pnpm)((?:@[\w-]+/)?[\w-]+)/"

NODE: dict[str, Variation] = {
    "moved_lines": _sub(r":\d+:\d+(\)?)", r":7:70\1"),
    "lines_of_more_digits": _sub(r":(\d+):(\d+)(\)?)", r":1\1:1\2\3"),
    "other_messages": _sub(r"^( *(?:\[cause\]: )?[A-Z]\w+(?: \[\w+\])?): .*$", r"\1: no, 4711 times 'alice' 0x7f12"),
    "message_of_many_lines": _sub(r"^(\w+): ", r"\1: first\nsecond line\n\n", count=1),
    "no_first_line": lambda text: text.partition("\n")[2],
    "uncaught": lambda text: (
        f"/app/src/x.js:42\n    throw error;\n    ^\n\nUncaught {text.rstrip()}\n\nNode.js v20.11.1"
    ),
    "indented_by_tabs": lambda text: text.replace("    at ", "\tat "),
    "not_indented": _sub(r"^\s+", ""),
    "in_a_home": _sub(r"/(?:app|srv|usr/src/app|opt|home/dev)/(?=[\w./@-]+:\d)", "/home/alice/work/"),
    "on_lambda": _sub(r"/(?:app|srv|usr/src/app|opt|home/dev)/(?=[\w./@-]+:\d)", "/var/task/"),
    "as_modules": _sub(r"(?<=[( ])/(?=[\w./@-]+:\d)", "file:///"),
    "on_windows": lambda text: re.sub(
        r"(?<=[( ])/[\w./@-]+(?=:\d)", lambda match: "C:" + match[0].replace("/", "\\"), text
    ),
    "installed_by_pnpm": _sub(_NPM, r"node_modules/.pnpm/\1@9.8.7_peer@1.0.0/node_modules/\1/"),
    "installed_by_another_pnpm": _sub(r"@\d+\.\d+\.\d+/node_modules", "@11.0.1/node_modules"),
    "another_build": _sub(r"(main|vendor)\.[0-9a-f]{8}\.js", r"\1.0c0ffee1.js"),
    "bundled_by_another_name": lambda text: text.replace("webpack://portal-api/./", "webpack-internal:///./"),
    "not_awaited": _sub(r"at async ", "at "),
    "no_aliases": _sub(r" \[as \w+\]", ""),
    "other_receivers": lambda text: text.replace("Object.module.exports", "module.exports"),
    "no_ticks": _sub(r"^ *at process\.processTicksAndRejections \([^)]*\)\n", ""),
    "one_tick_more": _sub(
        r"^( +)at async ",
        r"\1at process.processTicksAndRejections (node:internal/process/task_queues:95:5)\n\1at async ",
    ),
    "watched_by_an_agent": _sub(
        r"^( +at .*express/lib/router/layer.*\n)", r"    at wrapped (/app/node_modules/dd-trace/src/a.js:1:2)\n\1"
    ),
    "another_route": _sub(
        r"^( +at .*express/lib/router/layer.*\n)", r"\1    at setLocale (/app/src/web/locale.js:3:5)\n", count=1
    ),
    "printed_whole": _sub(
        r"^    \.\.\. 2 lines matching cause stack trace \.\.\.\n",
        "    at Attempts.begin (/home/dev/portal/src/login/attempts.ts:12:10)\n"
        "    at Attempts.retry (/home/dev/portal/src/login/attempts.ts:28:10)\n",
    ),
    "members_swapped": lambda text: re.sub(
        r"(?s)(        Error: connect ECONNREFUSED ::1.*?\},\n)(        Error: .*?\}\n)", r"\2\1", text
    ),
    "another_member": lambda text: re.sub(r"(?s)(        Error: connect ECONNREFUSED ::1.*?\},\n)", r"\1\1", text),
    "deeper_recursion": _sub(r"^(    at (?!async|process).*\d\)\n)", r"\1\1\1", count=1),
}

_GO_MESSAGE = r"^(?!panic|goroutine|created|\[signal|exit|\t|runtime|main\.|net/|internal/|[\w.]+/[\w./-]+\.[\w(*]).+\n"

GO: dict[str, Variation] = {
    "moved_lines": _sub(r"\.(go|s):\d+", r".\1:7"),
    "lines_of_more_digits": _sub(r"\.(go|s):(\d+)", r".\1:1\2"),
    "other_offsets": _sub(r" \+0x[0-9a-f]+", " +0x9ab"),
    "other_addresses": _sub(r"0x[0-9a-f]+(?=[?,})])", "0xc000beef00"),
    "arguments_left_out": _sub(r"\((?:0x|\{0x)[^()]*\)$", "(...)"),
    "another_goroutine": _sub(r"goroutine \d+", "goroutine 4242"),
    "goroutine_of_a_thread": _sub(r"\[running\]", "[running, locked to thread]"),
    "other_goroutines": lambda text: (
        text
        if "goroutine" not in text
        else text.rstrip() + "\n\ngoroutine 9 [select]:\nmain.(*pool).wait(0xc000)\n\t/app/pool.go:3 +0x1\n"
    ),
    "only_its_goroutine": lambda text: text.partition("\n\ngoroutine 1 ")[0],
    "without_who_started_it": _sub(r"^created by .*\n\t.*\n?", ""),
    "started_by_an_older_go": _sub(r"^(created by .*) in goroutine \d+$", r"\1"),
    "other_messages": _sub(_GO_MESSAGE, "no, 4711 times 'alice'\n"),
    "other_values": _sub(r"(index out of range) .*", r"\1 [7] with length 2"),
    "recovered": _sub(r"^(panic: .*)$", r"\1 [recovered]\n\tpanic: oh no"),
    "in_a_home": _sub(r"^\t/(?:app|home/dev/intranet|src|workspace)/", "\t/home/alice/work/"),
    "on_windows": _sub(r"^\t/(?:app|home/dev/intranet|src|workspace)/", "\tC:/work/"),
    "trimmed_paths": _sub(r"^\t/(?:app|home/dev/intranet|src|workspace)/", "\tgithub.com/acme/gateway/"),
    "another_go": lambda text: text.replace("/usr/local/go/src/", "/opt/homebrew/Cellar/go/1.23.4/libexec/src/"),
    "other_versions": _sub(r"@v\d+\.\d+\.\d+/", "@v9.8.7/"),
    "another_major_version": lambda text: text.replace("jwt/v5", "jwt/v4"),
    "vendored": _sub(r"/go/pkg/mod/(\S+?)@v[\d.]+/", r"/app/vendor/\1/"),
    "other_closures": _sub(r"\.func\d+(?:\.\d+)*(?=$|\()", ".func7.3"),
    "wrapped_closures": _sub(r"\.func\d+(?:\.\d+)*(?=$|\()", ".func7.gowrap2"),
    "no_method_values": _sub(r"-fm$", ""),
    "instances_of_generics": lambda text: text.replace("[...]", "[go.shape.string]"),
    "indented_by_blanks": lambda text: text.replace("\t", "        "),
    "not_indented": lambda text: text.replace("\t", ""),
    "another_middleware": _sub(
        r"^(net/http\.HandlerFunc\.ServeHTTP.*\n.*\n)",
        r"\1github.com/acme/gateway/web.Locale.func1(...)\n\t/app/web/locale.go:9\n\1",
        count=1,
    ),
    "deeper_recursion": _sub(r"^(github\.com/acme/.*\n\t.*\n)", r"\1\1\1", count=1),
}

VARIATIONS: dict[str, dict[str, Variation]] = {
    "jvm": COMMON | JVM,
    "python": COMMON | PYTHON,
    "node": COMMON | NODE,
    "go": COMMON | GO,
}
