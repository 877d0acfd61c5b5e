'use strict';
addEventListener('DOMContentLoaded', () => {
  const $ = id => document.getElementById(id);
  const all = [];
  for (const line of $('data').textContent.split('\n')) {
    // The last line may be incomplete if the run was killed.
    if (line) try { all.push(JSON.parse(line)); } catch { break; }
  }
  all.sort((a, b) => a.index - b.index || (a.part ?? 0) - (b.part ?? 0));
  all.forEach((d, i) => { d.place = i + 1; });
  for (const d of all) {
    d.words = [d.source, d.id ?? '', d.error ?? '', ...d.pieces.map(p => p[0]),
      ...d.fields.map(f => f.pointer.slice(1) + ':' + f.value)].join('\n').toLowerCase();
    const sure = d.fields.map(f => f.confidence?.probability).filter(p => p != null);
    d.least = sure.length ? Math.min(...sure) : null;
  }
  const make = (name, options = {}, ...inside) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(options)) {
      if (key === 'hue') element.style.setProperty('--hue', value);
      else if (value !== null && value !== undefined) element.setAttribute(key, value);
    }
    element.append(...inside);
    return element;
  };
  const percent = p => p === 1 ? '100 %' : (100 * p).toFixed(p > 0.999 ? 2 : 1) + ' %';
  const count = (n, word) => n.toLocaleString('en') + ' ' + word + (n === 1 ? '' : 's');
  const nameOf = d => (d.id != null ? `${d.id} · ` : '') + d.source + (d.part != null ? `, part ${d.part + 1}` : '');
  // The list leaves out the folder that all texts are in.
  const folder = (all[0]?.source ?? '').replace(/[^/]*$/, '');
  const shared = all.every(d => d.source.startsWith(folder)) ? folder.length : 0;
  const shortOf = d => nameOf({ ...d, source: d.source.slice(shared) || d.source });
  const hue = i => (i * 137.5 + 25) % 360;
  const SOURCES = { sampled: 'chosen by the model', forced: 'forced by the constraint', copied: 'copied from the text',
    drafted: 'from the draft model', unverified: 'not verified' };

  const sum = f => all.reduce((s, d) => s + (f(d) ?? 0), 0);
  const failed = all.filter(d => d.error).length;
  const tokens = sum(d => d.tokens.length), forwards = sum(d => d.forwards);
  const values = sum(d => d.fields.length), grounded = sum(d => d.fields.filter(f => f.span).length);
  const share = source => percent(sum(d => d.tokens.filter(t => t[1] === source).length) / (tokens || 1));
  $('totals').textContent = [count(all.length - failed, 'record'), failed ? count(failed, 'failure') : null,
    `${grounded.toLocaleString('en')} of ${count(values, 'value')} with a span`,
    tokens ? `${count(tokens, 'token')} in ${count(forwards, 'forward')} (${(tokens / (forwards || 1)).toFixed(1)} a forward)` : null,
    tokens ? `${share('forced')} forced, ${share('copied')} copied` : null,
  ].filter(Boolean).join(' · ');

  const textOf = d => {
    const box = make('pre', { class: 'text' });
    for (const [text, fields] of d.pieces) {
      if (fields === null) { box.append(make('span', { class: 'gap' }, text)); continue; }
      if (!fields.length) { box.append(text); continue; }
      box.append(make('mark', { hue: hue(fields[0]), 'data-fields': fields.join(' '), tabindex: 0,
        title: fields.map(i => d.fields[i].pointer || '(record)').join(', ') }, text));
    }
    return box;
  };
  const tableOf = d => {
    const sure = d.fields.some(f => f.confidence);
    const head = ['field', 'value', ...(sure ? ['confidence'] : []), 'span'];
    const table = make('table', {}, make('tr', {}, ...head.map(h => make('th', {}, h))));
    d.fields.forEach((f, i) => {
      const cells = [make('td', { class: 'name', hue: hue(i) }, f.pointer.slice(1) || '(record)'),
        make('td', { class: 'value' }, f.value)];
      if (sure) {
        const cell = make('td', { class: 'number' });
        if (f.confidence) {
          const { probability, margin, legal_mass, alternatives } = f.confidence;
          const others = (alternatives ?? []).map(a => `${JSON.stringify(a.value)}: ${percent(a.probability)}`);
          cell.title = [`margin ${percent(margin)}`, `legal mass ${percent(legal_mass)}`, ...others].join('\n');
          cell.append(make('meter', { min: 0, max: 1, low: 0.5, high: 0.8, optimum: 1, value: probability }),
            ' ' + percent(probability));
        } else cell.append(make('span', { class: 'none' }, 'none'));
        cells.push(cell);
      }
      cells.push(make('td', { class: 'number' }, f.span ? `${f.page ? `page ${f.page}, ` : ''}${f.span[0]}–${f.span[1]}` : make('span', { class: 'none' }, 'none')));
      table.append(make('tr', { 'data-fields': i }, ...cells));
    });
    return table;
  };
  const stripOf = d => {
    const strip = make('div', { class: 'strip' });
    for (const [text, source, rejected] of d.tokens) {
      strip.append(make('span', { class: source, title: SOURCES[source] + (rejected ? `; replaces ${count(rejected, 'drafted token')}` : '') },
        text, ...(rejected ? [make('sup', {}, '×' + rejected)] : [])));
    }
    return strip;
  };
  const legendOf = d => make('p', { class: 'legend' },
    ...Object.keys(SOURCES).filter(s => d.tokens.some(t => t[1] === s))
      .map(s => make('span', { class: s }, s)), ...(d.tokens.some(t => t[2]) ? ['×n: n drafted tokens rejected'] : []));
  const articleOf = d => {
    const n = d.tokens.length;
    const facts = [n ? `${count(n, 'token')} in ${count(d.forwards, 'forward')}` : null,
      d.seconds != null ? d.seconds.toFixed(2) + ' s' : null, d.finish].filter(Boolean).join(' · ');
    const article = make('article', {}, make('h2', {}, nameOf(d)), make('p', { class: 'facts' }, facts));
    if (d.error) article.append(make('p', { class: 'error' }, d.error));
    article.append(make('div', { class: 'columns' }, make('div', {}, make('h3', {}, 'Text'), textOf(d)),
      make('div', {}, make('h3', {}, 'Record'), d.fields.length ? tableOf(d) : make('p', { class: 'none' }, 'no record'))));
    if (n) article.append(make('h3', {}, 'Tokens'), legendOf(d), stripOf(d));
    return article;
  };

  let shown = all, current = null;
  const select = (d, focus) => {
    current = d;
    for (const button of $('list').children) {
      const on = button.document === d;
      on ? button.setAttribute('aria-current', 'true') : button.removeAttribute('aria-current');
      if (on) button.scrollIntoView({ block: 'nearest' });
    }
    $('documents').replaceChildren(d ? articleOf(d) : make('p', { class: 'none' }, 'No document matches.'));
    $('documents').scrollTop = 0;
    if (d) history.replaceState(null, '', '#' + d.place);
    if (focus) $('list').focus();
  };
  const list = () => {
    const words = $('filter').value.toLowerCase().split(/\s+/).filter(Boolean);
    const state = $('state').value, order = $('order').value;
    shown = all.filter(d => words.every(w => d.words.includes(w)) && (state === 'all'
      || (state === 'failed') === Boolean(d.error) && (state !== 'ungrounded' || d.fields.some(f => !f.span && f.value !== 'null'))));
    if (order === 'confidence') shown.sort((a, b) => (a.least ?? 2) - (b.least ?? 2));
    if (order === 'forwards') shown.sort((a, b) => b.forwards - a.forwards);
    $('list').replaceChildren(...shown.map(d => {
      const side = d.error ? 'failed' : order === 'forwards' ? count(d.forwards, 'forward') : d.least != null ? percent(d.least) : '';
      const button = make('button', { type: 'button', class: d.error ? 'failed' : 'whole', tabindex: -1, title: d.source },
        make('span', {}, shortOf(d)), make('span', {}, side));
      button.document = d;
      button.onclick = () => select(d);
      return button;
    }));
    select(shown.includes(current) ? current : shown[0] ?? null);
  };
  const move = by => {
    const at = Math.max(0, Math.min(shown.length - 1, shown.indexOf(current) + by));
    if (shown.length) select(shown[at], true);
  };

  $('filter').oninput = list;
  $('state').onchange = list;
  $('order').onchange = list;
  $('help').onclick = () => {
    $('keys').hidden = !$('keys').hidden;
    $('help').setAttribute('aria-expanded', String(!$('keys').hidden));
  };
  addEventListener('keydown', e => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === 'Escape') { document.activeElement.blur(); return; }
    if (/^(INPUT|SELECT)$/.test(document.activeElement.tagName)) return;
    const keys = { j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
      Home: () => move(-Infinity), End: () => move(Infinity), '/': () => $('filter').focus(), '?': () => $('help').click(),
      f: () => { $('state').value = $('state').value === 'failed' ? 'all' : 'failed'; list(); } };
    if (keys[e.key]) { keys[e.key](); e.preventDefault(); }
  });
  // A field and its places in the text light up together.
  const light = on => e => {
    const at = e.target.closest('[data-fields]');
    if (!at) return;
    const fields = at.dataset.fields.split(' '), article = at.closest('article');
    for (const other of article.querySelectorAll('[data-fields]')) {
      if (other.dataset.fields.split(' ').some(f => fields.includes(f))) other.classList.toggle('on', on);
    }
  };
  for (const [name, on] of [['mouseover', true], ['mouseout', false], ['focusin', true], ['focusout', false]]) {
    $('documents').addEventListener(name, light(on));
  }
  // Paper has all documents that the filter shows.
  addEventListener('beforeprint', () => $('documents').replaceChildren(...shown.map(articleOf)));
  addEventListener('afterprint', () => select(current));
  current = all.find(d => '#' + d.place === location.hash) ?? null;
  list();
});
