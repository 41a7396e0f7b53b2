// names break between their parts only, and wide pictures stay legible on phones
const PARTS = [
  [
    ".bd-sidebar-primary a, .bd-sidebar-secondary code, .prev-next-title, article h1, dt.sig .sig-name",
    /(?<=[a-z])(?=[A-Z])/,
  ],
  ["article td code", /(?<=[_.(=:,/])(?=\w)/],
];
const WIDE = 850; // pixels of a picture with several panels

function breakBetweenParts(element, between) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode);
  for (const text of texts) {
    const parts = text.data.split(between);
    if (parts.length < 2) continue;
    const nodes = parts.flatMap((part) => [document.createElement("wbr"), part]);
    text.replaceWith(...nodes.slice(1));
  }
}

function markWide(image) {
  if (image.naturalWidth <= WIDE) return;
  image.classList.add("wide");
  image.style.setProperty("--natural", `${image.naturalWidth}px`);
  image.parentElement.classList.add("holds-wide");
}

document.addEventListener("DOMContentLoaded", () => {
  for (const [selector, between] of PARTS) {
    document.querySelectorAll(selector).forEach((element) => breakBetweenParts(element, between));
  }
  for (const image of document.querySelectorAll("article img:not(.sd-card-img-top)")) {
    if (image.complete) markWide(image);
    else image.addEventListener("load", () => markWide(image));
  }
});
