import Testing
@testable import ReadingSync
