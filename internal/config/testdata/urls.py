# Writes how aiperf joins base addresses and paths: BASE<tab>PATH<tab>URL.
#   python testdata/urls.py > testdata/aiperf-0.13.0-urls.txt
from urllib.parse import urlsplit, urlunsplit
from aiperf.transports.aiohttp_transport import AioHttpTransport

for base in ["http://h:8000", "http://h:8000/", "https://h/v1", "https://h/v1/", "https://h/api/v1", "https://h/v1/chat/completions",
             "http://h/v1?x=1", "http://h/xv1", "http://h/a%2Fb", "http://[::1]:8000/v1"]:
    for path in ["/v1/chat/completions", "/v1", "/custom", "/"]:
        s = urlsplit(base)
        joined = AioHttpTransport._dedup_path_overlap(s.path.rstrip("/"), path.lstrip("/"))
        print(base, path, urlunsplit((s.scheme, s.netloc, joined, s.query, s.fragment)), sep="\t")
