# Writes what Python's Jinja2 makes of the templates below, one a line, as JSON: [template, rendered] or [template, null, error].
# Run with the Python of an aiperf 0.13.0 installation, whose Jinja2 and settings these are:
#   python testdata/render.py > testdata/jinja2.jsonl
import json

import jinja2

CONTEXT = {
    "a": 7, "b": 2, "zero": 0, "neg": -7, "f": 1.5, "big": 1e17, "tiny": 0.00001, "yes": True, "no": False, "none": None, "s": "Text",
    "digits": "42", "empty": "", "list": [3, 1, 2], "phases": {"profiling": {"rate": 30, "name": "profiling"}}, "nolist": [],
}
TEMPLATES = r"""
plain
{{ a }}
{{a}}{{b}}
x {{ a }} y
{{ a * b }}
{{ a // b }} {{ neg // b }} {{ a // -b }} {{ neg // -2 }}
{{ a % b }} {{ neg % b }} {{ a % -b }} {{ -7.5 % 2 }}
{{ a / b }} {{ 6 / 2 }}
{{ 7.5 // 2 }} {{ -7.5 // 2 }}
{{ 2 ** 10 }} {{ 2 ** 3 ** 2 }} {{ 2 ** -1 }} {{ -2 ** 2 }} {{ (-1) ** 101 }} {{ 4 ** 0.5 }}
{{ a + b * 3 - 1 }} {{ (a + b) * 3 }} {{ a - b - 1 }}
{{ f }} {{ f * 2 }} {{ big }} {{ tiny }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 123456789.125 }} {{ 1_000 }}
{{ 0.1 + 0.2 }} {{ 1e300 * 1e300 }} {{ -1e300 * 1e300 }}
{{ yes }} {{ no }} {{ none }} {{ true }} {{ False }} {{ None }}
{{ yes + 1 }} {{ true * 3 }} {{ -true }}
{{ s + 'x' }} {{ s ~ a ~ f }} {{ 'ab' * 2 }} {{ 2 * "ab" }} {{ 'ab' * -1 }}
{{ "quote \" in" }} {{ 'a' 'b' }} {{ "}}" }} {{ '%}' }}
{{ a == 7 }} {{ a != 7 }} {{ a < b }} {{ a >= 7.0 }} {{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 'a' < 'b' }} {{ yes == 1 }} {{ none == none }} {{ s == 1 }}
{{ 'T' in s }} {{ 'q' not in s }} {{ 3 in list }} {{ 'rate' in phases.profiling }} {{ 'x' in phases }} {{ 1 in phases }}
{{ a and b }} {{ zero and a }} {{ zero or a }} {{ not a }} {{ not zero }} {{ not a == 7 }} {{ empty or 'dflt' }} {{ a or nope }}
{{ 'x' if a > 5 else 'y' }} {{ 'x' if a > 9 else 'z' if b else 'w' }}
{{ phases.profiling.rate }} {{ phases['profiling']['rate'] }} {{ phases.profiling.rate * 2 }}
{{ list[0] }} {{ list.1 }} {{ list[-1] }} {{ [1, 2, 3][1] }} {{ [1,][0] }}
{{ list | max }} {{ list | min }} {{ [a, b] | max }} {{ ['b', 'a'] | min }} {{ list | length }} {{ s | length }} {{ s | count }}
{{ f | int }} {{ '3.7' | int }} {{ '12' | int + 1 }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ a | float }} {{ '1.5' | float }} {{ 'x' | float }} {{ 'x' | float(2.5) }} {{ yes | int }}
{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ a | round }} {{ 1.25 | round(1) }}
{{ neg | abs }} {{ -1 | abs }} {{ -f | abs }} {{ s | lower }} {{ s | upper }} {{ a | string }} {{ ' x ' | trim }}|
{{ nope | default(3) }} {{ a | default(3) }} {{ empty | default('e') }} {{ empty | default('e', true) }} {{ nope | d('x') }} {{ phases.q | default(1) }}
{{ nope is defined }} {{ a is defined }} {{ nope is not defined }} {{ phases.q is defined }} {{ 1 + a is defined }}
{{ a | float | int | string | length }}
{% if a > 5 %}big{% else %}small{% endif %}
{% if a > 9 %}one{% elif a > 5 %}two{% else %}three{% endif %}
{% if zero %}x{% endif %}
{% if yes %}{% if no %}in{% else %}out{% endif %}!{% endif %}
{% if list %}full{% endif %}{% if nolist %}full{% else %}empty{% endif %}
{% raw %}{{ a }} {% if %}{% endraw %} {{ a }}
a {# a comment {{ nope }} #} b
a {{- a -}} b
a {%- if yes -%} x {%- endif -%} b
{%- raw -%} x {%- endraw -%} y
}} alone %} too #}
{{ nope }}
{{ phases.q }}
{{ phases.q.r }}
{{ nope + 1 }}
{{ nope.x }}
{{ a / 0 }}
{{ a // zero }}
{{ a % zero }}
{{ s + 1 }}
{{ a < s }}
{{ -s }}
{{ 'x' in a }}
{% if nope %}x{% endif %}
{{ a
{% if a %}
{{ a b }}
{{ }}
{{ a + }}
{{ (a }}
{{ a | }}
{{ 'x }}
{% endif %}
{% if a %}x{% else %}y{% else %}z{% endif %}
{% if %}x{% endif %}
{% raw %}x
""".strip("\n").split("\n")

env = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, keep_trailing_newline=True)
for t in TEMPLATES:
    try:
        print(json.dumps([t, env.from_string(t).render(**CONTEXT)]))
    except Exception as e:
        print(json.dumps([t, None, f"{type(e).__name__}: {e}"]))
