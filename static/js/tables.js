// On a narrow screen each row of a table is a card (components.css): its cells say what their column is, unless nobody
// sees the column's name anyway: buttons say what they do.
export function adopt(root) {
  for (const table of root.querySelectorAll(".table-box > .table")) {
    const heads = [...(table.tHead?.rows[0]?.cells ?? [])].map((head) => (head.querySelector(".visually-hidden") ? "" : head.textContent.trim()));
    for (const row of table.tBodies[0]?.rows ?? []) {
      for (const cell of row.cells) {
        const head = heads[cell.cellIndex];
        if (head && cell.colSpan === 1 && cell.tagName === "TD") cell.dataset.label = head;
      }
    }
  }
}
