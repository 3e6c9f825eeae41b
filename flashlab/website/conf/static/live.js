// Explorers and quizzes of the static site. All pictures and verdicts are in the page already.
'use strict';

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return JSON.parse(await new Response(stream).text());
}

function explorer(box) {
  const sliders = [...box.querySelectorAll('input')];
  const shown = box.querySelector('.fl-shown');
  let pictures = null;
  async function draw() {
    pictures = pictures || unpack(box.querySelector('script').textContent);
    let at = 0;
    for (const slider of sliders) {
      const word = JSON.parse(slider.dataset.words)[+slider.value];
      slider.nextElementSibling.textContent = word;
      slider.setAttribute('aria-valuetext', word);
      at = at * (+slider.max + 1) + +slider.value;
    }
    shown.innerHTML = (await pictures)[at];
    reachable();
  }
  sliders.forEach(slider => slider.addEventListener('input', draw));
}

// Numbers and formulas with + - * / ** exp log sqrt, as flashlab.quizzes.question.number reads them.
function number(text) {
  const tokens = text.replace(/,/g, '').replace(/^[=\s]+/, '')
    .match(/\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|\*\*|[a-z]+|\S/gi) || [];
  let at = 0;
  const take = token => tokens[at] === token && ++at;
  const functions = {exp: Math.exp, log: Math.log, sqrt: Math.sqrt};
  function atom() {
    const token = tokens[at++];
    if (token === '(') { const value = sum(); if (!take(')')) throw 0; return value; }
    if (Object.hasOwn(functions, token) && take('(')) {
      const value = functions[token](sum());
      if (!take(')')) throw 0;
      return value;
    }
    if (token === undefined || !/^[\d.]/.test(token)) throw 0;
    return Number(token);
  }
  function power() { const base = atom(); return take('**') ? base ** signed() : base; }
  function signed() { return take('-') ? -signed() : take('+') ? signed() : power(); }
  function product() {
    let value = signed();
    for (;;) {
      if (take('*')) value *= signed();
      else if (take('/')) value /= signed();
      else return value;
    }
  }
  function sum() {
    let value = product();
    for (;;) {
      if (take('+')) value += product();
      else if (take('-')) value -= product();
      else return value;
    }
  }
  const value = sum();
  if (at < tokens.length || Number.isNaN(value)) throw 0;
  return value;
}

function judge(verdicts, text) {
  let value;
  try { value = number(text); } catch { return [false, verdicts.none]; }
  for (const [i, [target, share, said]] of verdicts.near.entries()) {
    if (Math.abs(value - target) <= share * Math.abs(target)) return [i === 0, said];
  }
  const right = verdicts.near.length ? verdicts.near[0][0] : 0;
  if (!Number.isFinite(value) || value * right <= 0) return [false, verdicts.sign];
  return [false, Math.abs(value) > Math.abs(right) ? verdicts.large : verdicts.small];
}

function quiz(box) {
  const all = JSON.parse(box.querySelector('script').textContent);
  box.querySelectorAll('.fl-question').forEach((row, i) => {
    const field = row.querySelector('input'), said = row.querySelector('.fl-said');
    function check() {
      if (!field.value.trim()) return;
      const [right, words] = judge(all[i], field.value);
      said.innerHTML = `<b>${right ? '✔ Right.' : '✘ Not yet.'}</b> ${words}`;
      said.className = `fl-said ${right ? 'fl-right' : 'fl-wrong'}`;
    }
    row.querySelector('button').addEventListener('click', check);
    field.addEventListener('keydown', e => { if (e.key === 'Enter') check(); });
  });
}

// What scrolls sideways can be reached by keys, so that a reader without a mouse sees all of it.
function reachable() {
  for (const box of document.querySelectorAll('main *')) {
    if (box.scrollWidth > box.clientWidth && /auto|scroll/.test(getComputedStyle(box).overflowX)) {
      box.tabIndex = 0;
    }
  }
}

addEventListener('load', reachable);
addEventListener('resize', reachable);
addEventListener('DOMContentLoaded', () => {
  document.querySelectorAll('.fl-live').forEach(explorer);
  document.querySelectorAll('.flashlab-quiz').forEach(quiz);
});
