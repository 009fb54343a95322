import HealthSyncClient

extension FuzzTarget {
    /// What an iPhone with the Health Sync app answers, and what its QR code holds: the first octet picks the status.
    static let healthSync = FuzzTarget(
        "healthSync", longest: 2048,
        words: [
            #""status":"ok""#, #""samples":["#, #""hasMore":true"#, #""returnedCount":1"#, #""metadata":{"#,
            #""value":97.25"#, "1e-3", #""startDate":"2026-11-20T12:00:00Z""#, #""enabledTypes":["#, "\\u00e9",
            "\\ud83d",
            #""certificateFingerprint":""#, #""version":"1""#,
        ],
        seeds: { _ in
            let sample =
                #"{"id":"A","type":"heartRate","value":72.5,"unit":"count/min","startDate":"2026-11-20T12:00:00Z","#
                + #""endDate":"2026-11-20T12:00:00.5+01:00","sourceName":"W","metadata":{"sleepStage":"rem"}}"#
            let fingerprint = String(repeating: "0a", count: 32)
            return [
                #"{"status":"ok","samples":[\#(sample),\#(sample)],"message":null,"hasMore":false,"returnedCount":2}"#,
                #"{"status":"locked","samples":[],"message":"Device is locked","hasMore":false,"returnedCount":0}"#,
                #"{"token":"0123456789ABCDEF","expiresAt":"2026-12-20T12:00:00Z"}"#,
                #"{"status":"ok","version":"1","deviceName":"P","enabledTypes":["steps"],"serverTime":"2026-11-20T12:00:00Z"}"#,
                #"{"version":"1","host":"192.168.1.2","port":4711,"code":"Ab3dE7gH","expiresAt":"2026-11-20T12:05:00Z","#
                    + #""certificateFingerprint":"\#(fingerprint)"}"#, sample, "Rate limit exceeded", "<html>",
            ].inputs.map { [0] + $0 }
        }
    ) { octets in
        let broken = readHealthSyncAnswer(octets)
        expect(broken == nil, broken ?? "")
    }
}
