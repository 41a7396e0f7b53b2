// names break between their parts only, those in tables if they are long;
// wide pictures stay legible on phones, where they scroll
const PARTS = [
  [
    ".bd-sidebar-primary a, .bd-sidebar-secondary code, .prev-next-title, article h1, dt.sig .sig-name",
    /(?<=[a-z])(?=[A-Z])|(?<=_)(?=\w)/,
    0,
  ],
  ["article td code", /(?<=[_.(=:,/])(?=\w)/, 24],
];
const WIDE = 850; // pixels of a picture with several panels, or with two beside each other:
const FLAT = 1.9; // width over height

function breakBetweenParts(element, between, length) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode);
  for (const text of texts) {
    const parts = text.data.split(between);
    if (parts.length < 2 || text.data.length <= length) continue;
    const nodes = parts.flatMap((part) => [document.createElement("wbr"), part]);
    text.replaceWith(...nodes.slice(1));
  }
}

function markWide(image) {
  if (image.naturalWidth <= WIDE && image.naturalWidth < FLAT * image.naturalHeight) return;
  image.classList.add("wide");
  image.style.setProperty("--natural", `${image.naturalWidth}px`);
  image.parentElement.classList.add("holds-wide");
}

document.addEventListener("DOMContentLoaded", () => {
  for (const [selector, between, length] of PARTS) {
    for (const element of document.querySelectorAll(selector)) {
      breakBetweenParts(element, between, length);
    }
  }
  for (const image of document.querySelectorAll("article img:not(.sd-card-img-top)")) {
    if (image.complete) markWide(image);
    else image.addEventListener("load", () => markWide(image));
  }
});
