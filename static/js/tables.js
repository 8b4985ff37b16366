// On a narrow screen each row of a table is a card (components.css): its cells say what their column is.
export function adopt(root) {
  for (const table of root.querySelectorAll(".table-box > .table")) {
    const heads = [...(table.tHead?.rows[0]?.cells ?? [])].map((head) => head.textContent.trim());
    for (const row of table.tBodies[0]?.rows ?? []) {
      for (const cell of row.cells) {
        const head = heads[cell.cellIndex];
        if (head && cell.colSpan === 1 && cell.tagName === "TD") cell.dataset.label = head;
      }
    }
  }
}
