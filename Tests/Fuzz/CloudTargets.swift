import CloudSources

extension FuzzTarget {
    /// What a wear service and WHOOP answer, the records in it, their frames, and a browser's redirect: the first octet picks
    /// the status.
    static let cloud = FuzzTarget(
        "cloud", longest: 2048,
        words: [
            #""records":["#, #""cursor":"x""#, #""next_token":null"#, #""score":{"#, #""score_state":"SCORED""#,
            #""hrv_rmssd_milli":31.8"#, #""start":"2026-11-20T12:00:00.000Z""#, #""timezone_offset":"-05:00""#,
            #""summaryId":"s""#, #""startTimeInSeconds":1795176000"#, #""durationInSeconds":900"#, #""steps":1"#,
            "1e-3",
            "cloud record 1\n", "person ann\n", "vendor whoop\n", "collection sleep\n", "part record\n\n", "code=",
            "&state=",
            "error=access_denied", "success=true&user_id=",
        ],
        seeds: { _ in
            let sleep =
                #"{"id":"a","created_at":"2026-11-20T07:00:00Z","start":"2026-11-19T22:00:00Z","end":"2026-11-20T06:00:00Z","#
                + #""timezone_offset":"+01:00","nap":false,"score":{"stage_summary":{"total_rem_sleep_time_milli":1}}}"#
            let daily =
                #"{"summaryId":"d","calendarDate":"2026-11-20","startTimeInSeconds":1795176000,"durationInSeconds":86400,"#
                + #""steps":4210,"restingHeartRateInBeatsPerMinute":51,"timeOffsetSpo2Values":{"0":97}}"#
            return [
                #"{"records":[\#(sleep),\#(daily)],"cursor":"next"}"#, sleep, daily,
                #"{"cycle_id":1,"created_at":"2026-11-20T07:00:00Z","score":{"recovery_score":66,"hrv_rmssd_milli":31.8}}"#,
                #"{"error":"invalid_grant","error_description":"no"}"#, "<html>",
                "cloud record 1\nperson ann\nvendor whoop\ncollection sleep\npart record\n\n" + sleep,
                "success=true&user_id=u&state=s",
            ].inputs.map { [0] + $0 }
        }
    ) { octets in
        let broken = readCloudAnswer(octets)
        expect(broken == nil, broken ?? "")
    }
}
