"""The page of `ftw gallery`, a jinja2 template that holds all its styles."""

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #faf8f3; --card: #ffffff; --ink: #24282f; --soft: #5a626e; --line: #e0dbd0;
  --code: #f1ede4; --link: #24589a; --mark: #4a7d50;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #16181d; --card: #1f2229; --ink: #e4e2dc; --soft: #a3a9b4; --line: #363b45;
    --code: #292d36; --link: #8ab6ee; --mark: #8cc493;
  }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; max-width: 62rem; padding: 2rem 1rem 4rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.3rem; margin: 0; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; color: var(--mark); }
p { margin: .4rem 0; }
a { color: var(--link); }
.soft, figcaption, dt { color: var(--soft); }
nav ul { display: flex; flex-wrap: wrap; gap: .4rem; padding: 0; margin: 1rem 0 2rem; }
nav li { list-style: none; }
nav a {
  display: block; padding: .3rem .7rem; border: 1px solid var(--line); border-radius: 1rem;
  background: var(--card); text-decoration: none; font-size: .9rem;
}
section {
  background: var(--card); border: 1px solid var(--line); border-radius: .7rem;
  padding: 1.2rem; margin: 0 0 1.5rem;
}
.two { display: flex; flex-wrap: wrap; gap: 1.2rem 1.8rem; margin: 1rem 0; }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; }
figure { margin: 0; max-width: 20rem; }
figure img { display: block; max-width: 100%; height: auto; border-radius: .4rem; }
figcaption { font-size: .85rem; margin-top: .3rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; margin: 0; }
.two > dl { flex: 1 1 24rem; align-content: start; }
dd { margin: 0; overflow-wrap: anywhere; }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
code { font-size: .88em; background: var(--code); border-radius: .25rem; padding: .1em .3em; }
pre {
  background: var(--code); border-radius: .4rem; padding: .7rem .9rem; margin: .3rem 0;
  font-size: .85rem; line-height: 1.4; white-space: pre-wrap; overflow-wrap: anywhere;
}
pre code { background: none; padding: 0; font-size: 1em; }
details { margin-top: 1rem; border-top: 1px solid var(--line); padding-top: .6rem; }
summary { cursor: pointer; font-weight: 600; }
.doc { max-width: 46rem; }
.doc ul { padding-left: 1.3rem; margin: .3rem 0; }
@media (max-width: 32rem) {
  pre { font-size: .78rem; }
  .two > dl { flex-basis: 100%; }
  section { padding: .9rem; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .5rem; }
}
"""

PAGE = (
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Environments of the FTW suite</title>
<style>"""
    + STYLE
    + """</style>
</head>
<body>
<header>
<h1>Environments of the FTW suite</h1>
<p class="soft">Every environment takes text and answers with a score at the end. Its instances
are addressed by split and number, and no two splits share one.</p>
<nav aria-label="Environments">
<ul>
{% for s in sections %}
<li><a href="#{{ s.anchor }}">{{ s.facts.id }}</a></li>
{% endfor %}
</ul>
</nav>
</header>
<main>
{% for s in sections %}
{% set f = s.facts %}
<section id="{{ s.anchor }}" aria-labelledby="{{ s.anchor }}-title">
<h2 id="{{ s.anchor }}-title">{{ f.id }}</h2>
<p>{{ f.summary }}</p>
<pre><code>gym.make("ftw_envs:{{ f.id }}")</code></pre>
<div class="two">
<div class="pictures">
{% for p in s.pictures %}
<figure>
{% if p.still %}
<picture>
<source srcset="{{ p.still }}" media="(prefers-reduced-motion: reduce)">
{% endif %}
<img src="{{ p.src }}" width="{{ p.width }}" height="{{ p.height }}" alt="{{ p.alt }}" \
loading="lazy">
{% if p.still %}
</picture>
{% endif %}
<figcaption>{{ p.caption }}</figcaption>
</figure>
{% endfor %}
</div>
<dl>
<dt>instances</dt>
<dd>{% for split, n in f.instances.items() %}{{ "{:,}".format(n) }} {{ split }}{{ "" if loop.last \
else ", " }}{% endfor %}</dd>
<dt>step limit</dt>
<dd>{{ f.max_steps }}</dd>
<dt>arguments it fixes</dt>
<dd>{% for key, value in f.kwargs.items() %}<code>{{ key }}={{ "%r" | format(value) }}</code> \
{% else %}none{% endfor %}</dd>
<dt>observation</dt>
<dd><code>{{ f.observation_space }}</code></dd>
<dt>action</dt>
<dd><code>{{ f.action_space }}</code></dd>
<dt>batched form</dt>
<dd>{% if f.vector_entry_point %}<code>{{ f.vector_entry_point }}</code>{% else %}none\
{% endif %}</dd>
<dt>version</dt>
<dd><code>{{ f.env_version }}</code></dd>
</dl>
</div>
{% if s.text %}
<p class="soft">What an agent reads first:</p>
<pre>{{ s.text }}</pre>
{% endif %}
<details{{ " open" if s.open }}>
<summary>How it works</summary>
<div class="doc">
{{ s.doc | safe }}</div>
</details>
</section>
{% endfor %}
</main>
</body>
</html>
"""
)
