/** The colour theme: that of the system, light or dark. */

const NAME = "ffwd-theme";
const THEMES = ["system", "light", "dark"];

/**
 * Applies the stored theme and lets the button change it.
 * @param {HTMLButtonElement} button
 */
export function startTheme(button) {
  let theme = "system";
  try {
    theme = localStorage.getItem(NAME) ?? theme;
  } catch {
    // Without storage the theme is that of the system at each start.
  }
  const apply = () => {
    if (!THEMES.includes(theme)) theme = "system";
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  };
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    try {
      localStorage.setItem(NAME, theme);
    } catch {
      // It still applies until the page is loaded again.
    }
    apply();
  });
  apply();
}
