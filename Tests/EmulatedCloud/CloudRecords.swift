import Foundation

/// Records as the clouds document them.
public enum CloudRecords {
    /// An instant as WHOOP writes it.
    public static func time(_ date: Date) -> String { date.formatted(.iso8601) }

    /// A recovery of WHOOP's API, version 2.
    public static func recovery(
        _ cycle: Int, at date: Date, score: Int? = 66, hrv: Double? = 31.813562, updated: Double = 0
    )
        -> String
    {
        let scored = score.map {
            #","score":{"user_calibrating":false,"recovery_score":\#($0),"resting_heart_rate":52,"hrv_rmssd_milli":\#(hrv.map { "\($0)" } ?? "null"),"spo2_percentage":95.6875,"skin_temp_celsius":33.7}"#
        }
        return
            #"{"cycle_id":\#(cycle),"sleep_id":"night-\#(cycle)","user_id":10129,"created_at":"\#(time(date))","updated_at":"\#(time(date + updated))","score_state":"\#(score == nil ? "PENDING_SCORE" : "SCORED")"\#(scored ?? "")}"#
    }

    /// A night of WHOOP's API, version 2.
    public static func sleep(_ id: String, at date: Date, hours: Double = 8, isScored: Bool = true) -> String {
        let score =
            isScored
            ? #","score":{"stage_summary":{"total_in_bed_time_milli":30272735,"total_rem_sleep_time_milli":5879573},"respiratory_rate":16.11,"sleep_performance_percentage":98}"#
            : ""
        return
            #"{"id":"\#(id)","user_id":10129,"created_at":"\#(time(date))","updated_at":"\#(time(date + (isScored ? 60 : 0)))","start":"\#(time(date))","end":"\#(time(date + hours * 3600))","timezone_offset":"+01:00","nap":false,"score_state":"\#(isScored ? "SCORED" : "PENDING_SCORE")"\#(score)}"#
    }

    /// A workout of WHOOP's API, version 2.
    public static func workout(_ id: String, at date: Date) -> String {
        #"{"id":"\#(id)","user_id":10129,"created_at":"\#(time(date))","updated_at":"\#(time(date))","start":"\#(time(date))","end":"\#(time(date + 1800))","timezone_offset":"-05:00","sport_name":"running","score_state":"SCORED","score":{"strain":8.2463,"average_heart_rate":123,"max_heart_rate":146,"kilojoule":1569.34033203125,"distance_meter":1772.77,"zone_durations":{"zone_zero_milli":300000}}}"#
    }

    /// A cycle of WHOOP's API, version 2; one that goes on has no end.
    public static func cycle(_ id: Int, at date: Date, isOver: Bool = true) -> String {
        #"{"id":\#(id),"user_id":10129,"created_at":"\#(time(date))","updated_at":"\#(time(date))","start":"\#(time(date))","end":\#(isOver ? "\"\(time(date + 86_400))\"" : "null"),"timezone_offset":"-05:00","score_state":"SCORED","score":{"strain":5.29,"kilojoule":8288.297,"average_heart_rate":68,"max_heart_rate":141}}"#
    }

    /// A summary of Garmin's Health API, with members of its own.
    public static func garmin(_ id: String, at date: Date, _ members: String, seconds: Int = 900) -> String {
        #"{"userId":"4aacafe8","summaryId":"\#(id)","startTimeInSeconds":\#(Int(date.timeIntervalSince1970)),"startTimeOffsetInSeconds":3600,"durationInSeconds":\#(seconds),\#(members)}"#
    }
}
