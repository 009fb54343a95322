import Testing
@testable import ReadingStore
