// Copying that works on plain HTTP too, and is never said to have worked when it has not.

function byCommand(text) {
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'unseen';
  area.readOnly = true;
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  const focused = document.activeElement;
  area.select();
  let copied = false;
  try {
    copied = document.execCommand('copy');
  } finally {
    area.remove();
    focused?.focus?.({ preventScroll: true });
  }
  return copied;
}

/** Copies text; says whether that worked. */
export async function copy(text) {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Not allowed here; the older way may be.
    }
  }
  return byCommand(text);
}

/** A button that copies what `text()` gives, and shows what came of it. */
export function copyButton(label, text, fallback) {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = label;
  button.addEventListener('click', async () => {
    const copied = await copy(text());
    if (!copied && fallback) getSelection().selectAllChildren(fallback);
    button.textContent = copied ? 'Copied' : 'Press Ctrl+C';
    setTimeout(() => { button.textContent = label; }, 1500);
  });
  return button;
}
