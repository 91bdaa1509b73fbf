// The signs of the pages.
const PATHS: Record<string, string> = {
  cluster: "M8 3.5a1.5 1.5 0 1 0 0 .01M3.5 12a1.5 1.5 0 1 0 0 .01M12.5 12a1.5 1.5 0 1 0 0 .01M7.3 5 4.3 10.6M8.7 5l3 5.6M5.2 12h5.6",
  statements: "M3 4h10M3 8h10M3 12h6",
  locks: "M4 7.5h8v6H4zM5.5 7.5V5a2.5 2.5 0 0 1 5 0v2.5",
  tables: "M2.5 3.5h11v9h-11zM2.5 6.5h11M6.5 6.5v6",
  changelog: "M8 2.5v11M8 4.5h5M8 8H3M8 11.5h4",
  sql: "M3 4.5 6.5 8 3 11.5M8 12h5",
};

export function Icon({ name }: { name: string }) {
  return (
    <svg class="sign" viewBox="0 0 16 16" width="18" height="18" aria-hidden="true">
      <path d={PATHS[name]} fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  );
}
