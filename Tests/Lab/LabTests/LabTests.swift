import Testing

/// The whole gateway against a real bluetoothd, in the lab of `Tests/Lab`: each test drives the executable as a person
/// does, or the library as an embedder does, and compares with what the meters hold.
///
/// There is one radio, so there is one test at a time. Without the lab all are skipped: `Tests/Lab/run-lab --suite` starts
/// it, and `make test` runs them so.
@Suite(
    .serialized, .enabled(if: Lab.isAvailable, "needs the Bluetooth lab: Tests/Lab/run-lab --suite"),
    .compactMapIssues { issue in
        var issue = issue
        issue.comments.append(Comment(rawValue: "what the lab saw last:\n\(Lab.story)"))
        return issue
    })
struct LabTests {}
