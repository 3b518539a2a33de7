// The keyboard. Every key has a button or a place to click too.

/** Calls the action of a key; not while somebody types. */
export function listen(actions, leaveField) {
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
    const isTyping = event.target.matches('input, select, textarea');
    if (isTyping) {
      if (event.key === 'Escape') leaveField(event.target);
      return;
    }
    if (event.target.matches('button, summary') && ['Enter', ' '].includes(event.key)) return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
