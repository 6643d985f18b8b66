import { describe, expect, it } from "vitest";
import type { Source } from "../../api/types";
import { deliveryText, lagText, latencyText, limitText, unreadText } from "./sourceText";

const source = (more: Partial<Source>): Source => ({
  kind: "KafkaV2",
  partitions: 8,
  lag_rows: 0,
  unread_files: null,
  unread_versions: null,
  lag_s: 0,
  is_lag_minimum: false,
  skew: 1,
  worst_partition: null,
  partition_lags: [],
  input_limit: 8,
  ...more,
});

describe("a source", () => {
  it("without a shuffle limits the slots", () => {
    expect(limitText(source({}), "none")).toBe("8 partitions: more than 8 slots would idle");
    expect(limitText(source({ partitions: 1, input_limit: 1 }), "none")).toBe(
      "1 partition: more than 1 slot would idle",
    );
    expect(limitText(source({ input_limit: 12 }), "none")).toBe("12 tasks: more than 12 slots would idle");
  });

  it.each(["exchange", "repartition", "unknown", null])("before the shuffle %s only has a limit", (shuffle) =>
    expect(limitText(source({}), shuffle)).toBe("8 partitions"),
  );

  it("may have no limit", () => expect(limitText(source({ input_limit: null }), "none")).toBe("–"));

  it("has unread rows or unread files", () => {
    expect(unreadText(source({ lag_rows: 1 }))).toBe("1 row");
    expect(unreadText(source({ lag_rows: 12_345 }))).toBe("12.3K rows");
    expect(unreadText(source({ lag_rows: null, unread_files: 1 }))).toBe("1 file");
    expect(unreadText(source({ lag_rows: null, unread_files: 0 }))).toBe("0 files");
    expect(unreadText(source({ lag_rows: null, unread_versions: 2 }))).toBe("2 commits");
    expect(unreadText(source({ lag_rows: null }))).toBe("–");
  });

  it("has a lag, which may be larger than the known one", () => {
    expect(lagText(source({ lag_s: 75.2 }))).toBe("1 m 15 s");
    expect(lagText(source({ lag_s: 75.2, is_lag_minimum: true }))).toBe("at least 1 m 15 s");
    expect(lagText(source({ lag_s: null }))).toBe("–");
  });
});

describe("a query", () => {
  it("has percentiles of its latency", () =>
    expect(
      latencyText({
        name: "counts",
        latency: { rows: 1024, p50_ms: 9, p95_ms: 51, p99_ms: 71, max_ms: 1500 },
      }),
    ).toBe(
      "counts has a latency of 9 ms (p50), 51 ms (p95) and 71 ms (p99), at most 1,500 ms: 1,024 rows of the newest batch.",
    ));

  it("may not measure its latency", () => expect(latencyText({ name: "counts", latency: null })).toBeNull());
});

describe("a sink", () => {
  it("of Kafka may repeat records", () =>
    expect(deliveryText({ name: "departures", sink: "KafkaTable" })).toBe(
      "departures writes to Kafka at least once: a batch that is repeated after a failure writes its records again.",
    ));

  it.each(["FileSink", "ForeachBatchSink", null])("of the kind %s has no such text", (sink) =>
    expect(deliveryText({ name: "departures", sink })).toBeNull(),
  );
});
