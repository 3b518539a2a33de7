// Elements made by scripts. Texts go in as text; nothing here reads markup.

export function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

/** A button with a word on it. */
export function button(label, action, className) {
  const made = element('button', className, label);
  made.type = 'button';
  made.addEventListener('click', action);
  return made;
}

/** An answer of the API, or an error that says why there is none. */
export async function ask(path, { params = '', signal, ms = 10_000 } = {}) {
  const signals = [AbortSignal.timeout(ms), ...(signal ? [signal] : [])];
  const answer = await fetch(String(params) ? `${path}?${params}` : path, { cache: 'no-store', signal: AbortSignal.any(signals) });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(body.text ?? `answer ${answer.status}`), { status: answer.status });
  return body;
}

/** As `ask`, of a line that may have come live: the store has it a little later than the list. */
export async function askOfLine(path, options = {}) {
  const end = performance.now() + 5_000;
  for (;;) {
    try {
      return await ask(path, options);
    } catch (error) {
      if (error.status !== 404 || performance.now() > end || options.signal?.aborted) throw error;
    }
    await new Promise((resolve) => { setTimeout(resolve, 300); });
  }
}

let sheets = 0;

/** A dialog over the page, a whole screen on a phone. Esc closes it, and the focus goes back to where it was. */
export function openSheet(title, { className = '', closed } = {}, ...children) {
  sheets += 1;
  const heading = element('h2', '', title);
  heading.id = `sheet-${sheets}`;
  const sheet = element('dialog', `sheet ${className}`);
  sheet.setAttribute('aria-labelledby', heading.id);
  const body = element('div', 'body', ...children);
  sheet.append(element('div', 'head', heading, button('Close', () => sheet.close(), 'close')), body);
  const before = document.activeElement;
  sheet.addEventListener('close', () => {
    const has = document.activeElement;
    const isFree = !has || has === document.body || sheet.contains(has);
    sheet.remove();
    const back = before?.isConnected && before !== document.body ? before : document.getElementById('list');
    // What closed the sheet may have put the focus somewhere else.
    if (isFree) back.focus({ preventScroll: true });
    closed?.();
  });
  sheet.addEventListener('click', (event) => { if (event.target === sheet) sheet.close(); });
  document.body.append(sheet);
  sheet.showModal();
  return Object.assign(sheet, { body });
}
